"""Puts together what this node saw of an attempt's end."""

from resilient.agent.attempt import Attempt
from resilient.agent.session import Session
from resilient.model.evidence import AttemptEvidence


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
        furthest_step=max((page.step for page in pages if page.step is not None), default=None),
        first_step=min((p.first_step for p in pages if p.first_step is not None), default=None),
        late_mismatch=any(worker.late_mismatch for worker in attempt.workers.values()),
        unkillable=unkillable,
    )
