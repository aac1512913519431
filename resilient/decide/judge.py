"""From evidence to a decision in one pure step, for the agent and for who checks it later."""

from collections.abc import Sequence
from typing import Protocol

from resilient.decide.restart import as_past, decide
from resilient.model.decision import Allowance, Decision, PastAttempt
from resilient.model.diagnosis import Diagnosis
from resilient.model.evidence import AttemptEvidence


class Diagnose(Protocol):
    """`diagnose.process_evidence.diagnose`, or another that may stand in for it."""

    def __call__(
        self, evidence: AttemptEvidence, history: Sequence[PastAttempt] = (), *, strict: bool
    ) -> Diagnosis: ...


def judge(
    evidence: AttemptEvidence,
    history: tuple[PastAttempt, ...],
    allowance: Allowance,
    diagnose: Diagnose,
) -> tuple[Diagnosis, Decision]:
    """What happened and what to do. Total: no well-formed evidence makes it raise.

    `diagnose` is an argument since `decide` and `diagnose` are layers that do not know each other.
    """
    diagnosis = diagnose(evidence, history, strict=allowance.strict_exit)
    return diagnosis, decide(diagnosis, evidence, history, allowance)


def remember(evidence: AttemptEvidence, diagnosis: Diagnosis, decision: Decision) -> PastAttempt:
    """The attempt as the decisions after the next ones need it."""
    return as_past(evidence, diagnosis, decision.budget)
