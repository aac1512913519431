"""Decision records of a small run, decided by the real judge."""

import msgspec

from report.samples import AT
from resilient.decide.judge import judge
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import Allowance, DecisionRecord, PastAttempt
from resilient.model.evidence import AttemptEvidence, ErrorText, Phase, WorkerEnd

ALLOWANCE = Allowance(max_restarts=3, infra_restarts_per_hour=20, rendezvous_retries=3)
KILLED = AttemptEvidence(
    attempt=0,
    host="nodeA",
    started_at=AT,
    noticed_at=AT + 7,
    ends=(
        WorkerEnd(
            rank=1,
            local_rank=1,
            pid=101,
            host="nodeA",
            exit_code=-9,
            mono=50.0,
            at=AT + 7,
            phase=Phase.STEP,
            step=120,
        ),
        WorkerEnd(
            rank=0,
            local_rank=0,
            pid=100,
            host="nodeA",
            exit_code=-15,
            mono=50.02,
            at=AT + 7.02,
            sent="SIGTERM",
            released=True,
            phase=Phase.STEP,
            step=120,
        ),
    ),
    furthest_step=120,
    first_step=0,
)
RAISED = msgspec.structs.replace(
    KILLED,
    attempt=1,
    noticed_at=AT + 20,
    ends=(
        msgspec.structs.replace(
            KILLED.ends[0],
            exit_code=1,
            error=ErrorText(
                type="ValueError",
                message="bad batch",
                source="error_file",
                fingerprint="ValueError:bad batch",
                location="train.py:31 in main",
            ),
        ),
    ),
    still_running=(0,),
    oom_kills=1,
    late_mismatch=True,
    unkillable=(77,),
)


def decided(
    evidence: AttemptEvidence = KILLED, history: tuple[PastAttempt, ...] = ()
) -> DecisionRecord:
    diagnosis, decision = judge(evidence, history, ALLOWANCE, diagnose)
    return DecisionRecord(
        at=evidence.noticed_at,
        evidence=evidence,
        history=history,
        allowance=ALLOWANCE,
        diagnosis=diagnosis,
        decision=decision,
    )
