"""Restart or stop: the rules in order; the first that applies decides.

1 a process cannot be killed                      stop 70, the node needs recycling
2 nothing failed                                  stop 0
3 the same failure at the same place again        stop 78, trying again would fail again
4 a warm worker failed before its first step      restart cold, once: it may have been us
5 an error that cannot go away by itself          stop 78
6 memory ran out for the second time              stop 1
7 the class's budget                              restart or stop 1

A restart becomes a stop with 75 when the platform takes a node back: it would not come to much.
"""

from collections.abc import Callable, Sequence

from resilient.decide import budget as budgets
from resilient.decide.place import before_first_step, place_of
from resilient.decide.progress import absolute_step, did_something
from resilient.decide.repeat import hopeless, repeated
from resilient.model.decision import Action, Allowance, Budget, Decision, PastAttempt
from resilient.model.diagnosis import Diagnosis, FailureClass, Kind
from resilient.model.evidence import AttemptEvidence, NodeTroubleKind

FAILED, REQUEUE, DETERMINISTIC, RECYCLE = 1, 75, 78, 70  # exit codes
_OURS_PERHAPS = {FailureClass.USER_ERROR, FailureClass.WORKER_CRASH}
_Case = tuple[Diagnosis, AttemptEvidence, Sequence[PastAttempt], Allowance]


def decide(
    diagnosis: Diagnosis,
    evidence: AttemptEvidence,
    history: Sequence[PastAttempt],
    allowance: Allowance,
) -> Decision:
    """What to do about a diagnosed failure. Pure and total."""
    case = (diagnosis, evidence, history, allowance)
    decision = next(found for rule in _RULES if (found := rule(*case)) is not None)
    hosts = [n.host for n in evidence.nodes if n.kind is NodeTroubleKind.PREEMPTED]
    if decision.action is Action.RESTART and hosts:
        return _stop(diagnosis, f"the platform takes {hosts[0]} back; requeue the job", REQUEUE)
    return decision


def as_past(evidence: AttemptEvidence, diagnosis: Diagnosis, budget: Budget) -> PastAttempt:
    """An attempt as later decisions remember it."""
    return PastAttempt(
        attempt=evidence.attempt,
        ended_at=evidence.noticed_at,
        diagnosis=diagnosis,
        budget=budget,
        phase=place_of(evidence, diagnosis),
        furthest_step=absolute_step(evidence),
        made_progress=did_something(evidence),
    )


def _unkillable(d: Diagnosis, e: AttemptEvidence, *_: object) -> Decision | None:
    if not e.unkillable:
        return None
    pids = ", ".join(map(str, e.unkillable))
    return _stop(
        d,
        f"processes that cannot be killed (state D): {pids}; they may hold the GPU and the "
        f"network of {e.host}, so nothing is restarted there; the node needs recycling",
        RECYCLE,
    )


def _no_failure(d: Diagnosis, *_: object) -> Decision | None:
    return _stop(d, "no worker failed", 0) if d.kind is Kind.NO_FAILURE else None


def _again(
    d: Diagnosis, e: AttemptEvidence, history: Sequence[PastAttempt], _: Allowance
) -> Decision | None:
    place = place_of(e, d)
    past = repeated(d, place, history)
    if past is None:
        return None
    return _stop(
        d,
        f"the same failure as in attempt {past.attempt}, at the same place ({place}); another "
        "attempt would fail again, so no restart is spent on it; mend the program or its input",
        DETERMINISTIC,
    )


def _perhaps_ours(
    d: Diagnosis, e: AttemptEvidence, history: Sequence[PastAttempt], _: Allowance
) -> Decision | None:
    """Never worse than torchrun: a warm worker that fails early gets one cold start."""
    warm = d.first_rank in e.warm and d.class_ in _OURS_PERHAPS
    if not warm or not before_first_step(place_of(e, d)) or _suspected(history):
        return None
    return Decision(
        action=Action.RESTART,
        reason="the worker had come from a waiting process and failed before its first step; to "
        "rule that out, the next attempt starts cold and is charged to nothing",
        budget=Budget.UNCHARGED,
        warm=False,
    )


def _hopeless(
    d: Diagnosis, e: AttemptEvidence, history: Sequence[PastAttempt], _: Allowance
) -> Decision | None:
    why = hopeless(d, place_of(e, d), history)
    return _stop(d, f"{why}; no restart is spent on it", DETERMINISTIC) if why else None


def _memory(
    d: Diagnosis, e: AttemptEvidence, history: Sequence[PastAttempt], _: Allowance
) -> Decision | None:
    before = [p.attempt for p in history if p.diagnosis.class_ is FailureClass.HOST_OOM]
    if d.class_ is not FailureClass.HOST_OOM or not before:
        return None
    return _stop(
        d,
        f"memory ran out in attempt {before[-1]} already, now with {e.oom_kills} kills by the "
        "kernel; one restart is allowed for that; lower the memory use (batch size, DataLoader "
        "workers) or raise the limit of the memory group",
    )


def _by_budget(
    d: Diagnosis, e: AttemptEvidence, history: Sequence[PastAttempt], allowance: Allowance
) -> Decision:
    if d.class_ is FailureClass.PREEMPTED:
        return _stop(d, "the platform takes the node back; requeue the job", REQUEUE)
    if d.class_ is FailureClass.CONFIG_ERROR:
        return _stop(d, "the configuration has to be changed first", DETERMINISTIC)
    budget = budgets.budget_of(d)
    if d.class_ is FailureClass.RENDEZVOUS:
        verdict = budgets.rendezvous(history, allowance)
    elif d.class_ is FailureClass.WARM_START:
        verdict = budgets.warm_start(history)
    elif d.class_ is FailureClass.MEMBERSHIP:
        verdict = budgets.membership()
    elif budget is Budget.INFRASTRUCTURE:
        verdict = budgets.infrastructure(e, as_past(e, d, budget), history, allowance)
    else:
        verdict = budgets.program(history, allowance)
    if not verdict.allowed:
        return _stop(d, verdict.reason)
    late = e.late_mismatch or d.class_ is FailureClass.WARM_START
    warm = not late and not _suspected(history)
    return Decision(action=Action.RESTART, reason=verdict.reason, budget=budget, warm=warm)


def _suspected(history: Sequence[PastAttempt]) -> bool:
    """Whether warm start was to blame, or may have been, in an earlier attempt."""
    return any(
        past.budget is Budget.UNCHARGED
        and past.diagnosis.class_ in (*_OURS_PERHAPS, FailureClass.WARM_START)
        for past in history
    )


def _stop(diagnosis: Diagnosis, reason: str, exit_code: int = FAILED) -> Decision:
    return Decision(
        action=Action.STOP,
        reason=reason,
        budget=budgets.budget_of(diagnosis),
        exit_code=exit_code,
        deterministic=exit_code == DETERMINISTIC,
    )


_RULES: tuple[Callable[..., Decision | None], ...] = (
    _unkillable,
    _no_failure,
    _again,
    _perhaps_ours,
    _hopeless,
    _memory,
    _by_budget,
)
