"""From the evidence of a failure to a recorded decision, and torchrun's where ours fails."""

import time

from resilient.agent.failopen import failing_open
from resilient.agent.session import Session
from resilient.agent.torch_seam import SeamAgent
from resilient.decide.as_torchrun import as_torchrun
from resilient.decide.judge import judge, remember
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import Allowance, Decision, DecisionRecord, PastAttempt
from resilient.model.diagnosis import Diagnosis
from resilient.model.evidence import AttemptEvidence


class Verdicts:
    """Judges one failure after another and remembers them."""

    def __init__(self, session: Session, agent: SeamAgent) -> None:
        self._session = session
        self._allowance = Allowance(
            max_restarts=agent.group.spec.max_restarts,
            infra_restarts_per_hour=session.policy.infra_restarts_per_hour,
            rendezvous_retries=session.policy.rendezvous_retries,
            strict_exit=session.policy.strict_exit,
            stalled_attempts=session.policy.stalled_attempts,
        )
        self._history: tuple[PastAttempt, ...] = ()

    def give(self, evidence: AttemptEvidence) -> tuple[Diagnosis, Decision]:
        """Diagnosis and decision, recorded before anybody acts on them."""
        diagnosis, decision = self._judge(evidence)
        self._session.recorder.decision(
            DecisionRecord(
                at=time.time(),
                evidence=evidence,
                history=self._history,
                allowance=self._allowance,
                diagnosis=diagnosis,
                decision=decision,
            )
        )
        with failing_open(self._session.recorder, "remembering a failure"):
            self._history = (*self._history, remember(evidence, diagnosis, decision))
        return diagnosis, decision

    def as_torchrun(self, evidence: AttemptEvidence) -> tuple[Diagnosis, Decision]:
        """torchrun's decision, for when we did not see what happened; recorded nowhere else."""
        why = "an error of our own kept us from seeing it"
        return as_torchrun(evidence, self._allowance.max_restarts, why)

    def _judge(self, evidence: AttemptEvidence) -> tuple[Diagnosis, Decision]:
        with failing_open(self._session.recorder, "judging a failure"):
            return judge(evidence, self._history, self._allowance, diagnose)
        return as_torchrun(evidence, self._allowance.max_restarts, "our own judgement failed")
