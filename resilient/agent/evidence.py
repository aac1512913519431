"""Puts together what this node saw of an attempt's end, and the bounds a decision must keep."""

from resilient.agent.attempt import Attempt
from resilient.agent.session import Session
from resilient.agent.torch_seam import SeamAgent
from resilient.model.decision import Allowance
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


def allowance(session: Session, agent: SeamAgent) -> Allowance:
    """What torchrun's flags and the policy allow."""
    return Allowance(
        max_restarts=agent.group.spec.max_restarts,
        infra_restarts_per_hour=session.policy.infra_restarts_per_hour,
        rendezvous_retries=session.policy.rendezvous_retries,
        strict_exit=session.policy.strict_exit,
    )
