"""Runs judged attempt after attempt, as the agent does it."""

from collections.abc import Iterable

import msgspec
from diagnose.samples import START

from resilient.decide.judge import judge, remember
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import Action, Allowance, Decision, PastAttempt
from resilient.model.diagnosis import Diagnosis
from resilient.model.evidence import AttemptEvidence

TORCHRUN = Allowance(max_restarts=0, infra_restarts_per_hour=20, rendezvous_retries=3)
THREE = msgspec.structs.replace(TORCHRUN, max_restarts=3)


def one(
    seen: AttemptEvidence, history: tuple[PastAttempt, ...] = (), allowance: Allowance = TORCHRUN
) -> tuple[Diagnosis, Decision]:
    return judge(seen, history, allowance, diagnose)


def run(
    attempts: Iterable[AttemptEvidence], allowance: Allowance = TORCHRUN, gap_s: float = 10.0
) -> tuple[list[Decision], tuple[PastAttempt, ...]]:
    """Decisions until the first STOP; attempts are numbered and `gap_s` apart."""
    history: tuple[PastAttempt, ...] = ()
    decisions: list[Decision] = []
    for number, seen in enumerate(attempts):
        began, lasted = START + number * gap_s, seen.noticed_at - seen.started_at
        numbered = msgspec.structs.replace(
            seen, attempt=number, started_at=began, noticed_at=began + lasted
        )
        diagnosis, decision = one(numbered, history, allowance)
        decisions.append(decision)
        history = (*history, remember(numbered, diagnosis, decision))
        if decision.action is Action.STOP:
            break
    return decisions, history


def shape(decisions: Iterable[Decision]) -> str:
    """P, I or U for a restart charged to a budget; the exit code for a stop."""
    return " ".join(
        d.budget.value[0].upper() if d.action is Action.RESTART else str(d.exit_code)
        for d in decisions
    )
