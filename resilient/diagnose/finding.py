"""A diagnosis without the ranks around it, and words that several findings share."""

from dataclasses import dataclass

from resilient.diagnose.parts import oom_kills
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
    host: str = ""  # where no worker can be named


def before_first_step(end: WorkerEnd) -> bool:
    """Whether the worker had not done an optimizer step, as far as is known."""
    return end.phase in (Phase.START, Phase.LOAD) and not end.step


def oom_words(evidence: AttemptEvidence, rank: int) -> str:
    """The numbers of the kernel's out-of-memory killer on the rank's node."""
    return (
        f"the kernel's out-of-memory killer struck {times(oom_kills(evidence, rank))} in this "
        f"job's memory group during attempt {evidence.attempt}"
    )
