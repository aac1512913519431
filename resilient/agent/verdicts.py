"""From the evidence of a failure to a recorded decision, and torchrun's where ours fails."""

import hashlib
import time
from collections.abc import Sequence

import msgspec

from resilient.agent.failopen import failing_open
from resilient.agent.session import Session
from resilient.agent.torch_seam import SeamAgent
from resilient.decide.as_torchrun import as_torchrun
from resilient.decide.group import decide_group
from resilient.decide.judge import judge, remember
from resilient.decide.membership import change
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import Allowance, Decision, DecisionRecord, PastAttempt
from resilient.model.diagnosis import Diagnosis
from resilient.model.evidence import AttemptEvidence
from resilient.model.membership import GroupCase, GroupDecision, GroupRecord


def digest_of(case: GroupCase) -> str:
    """SHA-256 of all that a decision was taken from."""
    return hashlib.sha256(msgspec.json.encode(case)).hexdigest()


def as_decision(case: GroupCase, record: GroupRecord) -> GroupDecision:
    """What travels of the record of a group's decision."""
    assert record.change is not None
    return GroupDecision(
        attempt=case.view.attempt,
        proposer=case.proposer,
        decision=record.decision,
        change=record.change,
        past=remember(record.evidence, record.diagnosis, record.decision),
        digest=digest_of(case),
    )


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
        self._proposed: GroupRecord | None = None  # what this node would have the group do

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

    def propose(self, case: GroupCase) -> GroupDecision:
        """What this node would decide for all; recorded by `read` if it becomes the decision."""
        self._proposed = self._group_record(case)
        return as_decision(case, self._proposed)

    def take_over(self, past: Sequence[PastAttempt]) -> None:
        """Remember what the group remembers, when this node has joined it."""
        self._history = tuple(past)

    def read(self, decision: GroupDecision, me: str) -> None:
        """Remember the group's decision, whoever took it, and record it where we did."""
        self._history = (*self._history, decision.past)
        record = self._proposed
        if record is None or record.case is None or decision.proposer != me:
            return
        if digest_of(record.case) == decision.digest:
            self._session.recorder.decision(record)

    def _group_record(self, case: GroupCase) -> GroupRecord:
        at = time.time()
        with failing_open(self._session.recorder, "judging a failure"):
            return decide_group(case, self._history, self._allowance, diagnose, at=at)
        evidence = AttemptEvidence(
            attempt=case.view.attempt, host=self._session.host, started_at=at, noticed_at=at
        )
        diagnosis, decision = self.as_torchrun(evidence)
        return GroupRecord(
            at=at,
            evidence=evidence,
            history=self._history,
            allowance=self._allowance,
            diagnosis=diagnosis,
            decision=decision,
            case=case,
            change=change(case, decision),
        )

    def as_torchrun(self, evidence: AttemptEvidence) -> tuple[Diagnosis, Decision]:
        """torchrun's decision, for when we did not see what happened; recorded nowhere else."""
        why = "an error of our own kept us from seeing it"
        return as_torchrun(evidence, self._allowance.max_restarts, why)

    def _judge(self, evidence: AttemptEvidence) -> tuple[Diagnosis, Decision]:
        with failing_open(self._session.recorder, "judging a failure"):
            return judge(evidence, self._history, self._allowance, diagnose)
        return as_torchrun(evidence, self._allowance.max_restarts, "our own judgement failed")
