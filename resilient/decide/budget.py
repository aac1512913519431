"""What restarts are charged to, and how much is left of it."""

from collections.abc import Sequence

import msgspec

from resilient.decide.progress import stalled
from resilient.model.decision import Allowance, Budget, PastAttempt
from resilient.model.diagnosis import Diagnosis, FailureClass, Kind
from resilient.model.evidence import AttemptEvidence

HOUR_S = 3600.0
WARM_START_LIMIT = 3  # restarts for a mismatch of ours; the second should not happen
_INFRASTRUCTURE = {
    FailureClass.WORKER_KILLED,
    FailureClass.RANK_ABSENT,
    FailureClass.WORKER_CRASH,
    FailureClass.HOST_OOM,
    FailureClass.PEER_GONE,
    FailureClass.NODE_LOST,
}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the budget allows a restart, and the rule with its numbers."""

    allowed: bool
    reason: str


def budget_of(diagnosis: Diagnosis) -> Budget:
    """Whose restarts a failure uses up."""
    if diagnosis.class_ in (
        FailureClass.RENDEZVOUS,
        FailureClass.WARM_START,
        FailureClass.PREEMPTED,
        FailureClass.MEMBERSHIP,
    ):
        return Budget.UNCHARGED
    # A rank that returned early did what the program told it to.
    if diagnosis.class_ in _INFRASTRUCTURE and diagnosis.kind is not Kind.RETURNED:
        return Budget.INFRASTRUCTURE
    return Budget.PROGRAM


def program(history: Sequence[PastAttempt], allowance: Allowance) -> Verdict:
    """--max-restarts, with torchrun's meaning."""
    limit = allowance.max_restarts
    used = sum(past.budget is Budget.PROGRAM for past in history)
    if used < limit:
        return Verdict(
            allowed=True,
            reason=f"the training program failed; restart {used + 1} of {limit} (--max-restarts)",
        )
    if limit <= 0:
        why = "the training program failed, and --max-restarts is 0; a larger one allows restarts"
    else:
        why = f"the training program failed, and all {limit} restarts of --max-restarts are used up"
    return Verdict(allowed=False, reason=why)


def infrastructure(
    evidence: AttemptEvidence,
    current: PastAttempt,
    history: Sequence[PastAttempt],
    allowance: Allowance,
) -> Verdict:
    """So many an hour and node, and none after attempts in a row that got nowhere."""
    standing, bound = stalled((*history, current)), allowance.stalled_attempts
    if 0 < bound <= standing:
        furthest = max((p.furthest_step or 0 for p in (*history, current)), default=0)
        where = f"beyond step {furthest}" if furthest else "anywhere"
        return Verdict(
            allowed=False,
            reason=f"the last {standing} attempts did not get {where}, so another one would not "
            "either; remove what ends them, or save checkpoints more often",
        )
    host, limit = current.diagnosis.host, allowance.infra_restarts_per_hour
    used = sum(
        past.budget is Budget.INFRASTRUCTURE
        and past.diagnosis.host == host
        and past.ended_at > evidence.noticed_at - HOUR_S
        for past in history
    )
    if used < limit:
        return Verdict(
            allowed=True,
            reason="not the program's failure, so not charged to --max-restarts; restart "
            f"{used + 1} of {limit} within an hour on {host}",
        )
    return Verdict(
        allowed=False,
        reason=f"{used} restarts within an hour on {host} for failures that the program did not "
        f"cause; {limit} are allowed (RESILIENT_INFRA_RESTARTS_PER_HOUR)",
    )


def rendezvous(history: Sequence[PastAttempt], allowance: Allowance) -> Verdict:
    """A few in a row."""
    limit = allowance.rendezvous_retries
    used = _in_a_row(history, FailureClass.RENDEZVOUS)
    if used < limit:
        return Verdict(
            allowed=True,
            reason="the initialisation failed, which is not charged to --max-restarts; try "
            f"{used + 1} of {limit} in a row, with a new store",
        )
    return Verdict(
        allowed=False,
        reason=f"the initialisation failed {used + 1} times in a row; {limit} retries are allowed "
        "(RESILIENT_RENDEZVOUS_RETRIES); check the addresses, ports and interfaces of the ranks",
    )


def warm_start(history: Sequence[PastAttempt]) -> Verdict:
    """Ours, and cured by a cold start; bounded all the same."""
    used = sum(past.diagnosis.class_ is FailureClass.WARM_START for past in history)
    if used < WARM_START_LIMIT:
        return Verdict(
            allowed=True,
            reason="resilient-run's own warm start was to blame; the next attempt starts cold "
            "and is charged to nothing",
        )
    return Verdict(
        allowed=False,
        reason=f"resilient-run's own warm start failed {used + 1} times, which should not be "
        "possible; set RESILIENT_WARM_START=off",
    )


def membership() -> Verdict:
    """Without a bound: each one is somebody's wish, and none is a failure."""
    return Verdict(
        allowed=True,
        reason="no failure of the program: charged to nothing, and no sign of a lack of progress",
    )


def _in_a_row(history: Sequence[PastAttempt], class_: FailureClass) -> int:
    number = 0
    for past in reversed(history):
        if past.diagnosis.class_ is FailureClass.MEMBERSHIP:  # says nothing about failures
            continue
        if past.diagnosis.class_ is not class_:
            break
        number += 1
    return number
