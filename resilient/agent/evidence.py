"""Puts together what this node saw of an attempt's end."""

from collections.abc import Sequence

from resilient.agent.attempt import Attempt
from resilient.agent.page import Page
from resilient.agent.session import Session
from resilient.model.evidence import AttemptEvidence


def _furthest(pages: Sequence[Page]) -> int | None:
    """The highest absolute step; steps of this life only where none is known to be absolute."""
    steps = [(page.first_step is not None, page.step) for page in pages if page.step is not None]
    return max(steps)[1] if steps else None


def gather(session: Session, attempt: Attempt, unkillable: tuple[int, ...]) -> AttemptEvidence:
    """The evidence of one attempt, ends in order of death."""
    pages = [worker.page for worker in attempt.workers.values()]
    ends = sorted(attempt.endings.by_local_rank.values(), key=lambda end: end.mono)
    return AttemptEvidence(
        attempt=attempt.number,
        host=session.host,
        started_at=attempt.started_at,
        noticed_at=attempt.noticed_at,
        ends=tuple(ends),
        stopped=tuple(attempt.stopped.values()),
        still_running=tuple(worker.rank for worker in attempt.running),
        oom_kills=attempt.oom.growth(),
        furthest_step=_furthest(pages),
        first_step=min((p.first_step for p in pages if p.first_step is not None), default=None),
        warm=tuple(worker.rank for worker in attempt.workers.values() if worker.warm),
        late_mismatch=any(worker.late_mismatch for worker in attempt.workers.values()),
        unkillable=unkillable,
    )


def nothing_known(session: Session, attempt: Attempt) -> AttemptEvidence:
    """Evidence of an attempt of which our own error left us nothing."""
    return AttemptEvidence(
        attempt=attempt.number,
        host=session.host,
        started_at=attempt.started_at,
        noticed_at=attempt.noticed_at,
    )
