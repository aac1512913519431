"""A diagnosis without the ranks around it, and words that several findings share."""

from dataclasses import dataclass

from resilient.diagnose.wording import times
from resilient.model.diagnosis import FailureClass, Kind
from resilient.model.evidence import AttemptEvidence, Phase, WorkerEnd


@dataclass(frozen=True)
class Finding:
    """A diagnosis without the ranks around it."""

    class_: FailureClass
    confidence: float
    sentence: str
    fingerprint: str
    kind: Kind = Kind.OTHER


def before_first_step(end: WorkerEnd) -> bool:
    """Whether the worker had not done an optimizer step, as far as is known."""
    return end.phase in (Phase.START, Phase.LOAD) and not end.step


def oom_words(evidence: AttemptEvidence) -> str:
    """The numbers of the kernel's out-of-memory killer."""
    return (
        "the kernel's out-of-memory killer struck "
        f"{times(evidence.oom_kills)} in this job's memory group during attempt {evidence.attempt}"
    )
