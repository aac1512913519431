"""What torchrun would do: the decision for when our own judgement failed."""

from resilient.model.decision import Action, Budget, Decision
from resilient.model.diagnosis import Diagnosis, FailureClass
from resilient.model.evidence import AttemptEvidence


def as_torchrun(
    evidence: AttemptEvidence, max_restarts: int, why: str
) -> tuple[Diagnosis, Decision]:
    """Restart while --max-restarts allows it; the first process seen to end is named."""
    ends = [end for end in evidence.ends if not end.ours]
    rank = ends[0].rank if ends else None
    diagnosis = Diagnosis(
        class_=FailureClass.UNDETERMINED,
        first_rank=rank,
        host=evidence.host,
        confidence=0.0,
        sentence=f"Rank {rank} ended first; nothing more is known, since {why}.",
        fingerprint="undetermined",
    )
    left = max_restarts - evidence.attempt
    decision = Decision(
        action=Action.RESTART if left > 0 else Action.STOP,
        reason=f"as torchrun: {max(left, 0)} of {max_restarts} restarts left",
        budget=Budget.PROGRAM,
        warm=False,
    )
    return diagnosis, decision
