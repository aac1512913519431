"""What all nodes saw becomes one piece of evidence and one decision."""

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.groups import (
    NOTICED,
    START,
    alarm,
    card,
    case,
    cases,
    decided,
    killed_by_us,
    lost,
    on,
    report,
    view,
)
from decide.histories import THREE, TORCHRUN
from resilient.decide.group import merge
from resilient.decide.judge import remember
from resilient.model.decision import Action, Budget, PastAttempt
from resilient.model.diagnosis import FailureClass, Kind
from resilient.model.evidence import NodeTroubleKind
from resilient.model.membership import (
    GroupCase,
    GroupRecord,
    NodeReport,
    NodeState,
    Trouble,
    Verdict,
)

TWO = view("h1", "h2")
STEPS = {"furthest_step": 120, "first_step": 100}


def test_times_become_those_of_the_stores_host() -> None:
    ahead = report(
        "h2", on("h2", 2, -9, 107.0), on("h2", 3, -15, 107.5), offset_s=-7.5, uncertainty_s=0.01,
        seen={"started_at": START + 8, "noticed_at": START + 107.25},
    )  # fmt: skip
    found = merge(case(TWO, report("h1", on("h1", 0, 1, 100.0)), ahead))
    assert [(one.rank, one.host, one.at - START) for one in found.ends] == [
        (2, "h2", 99.5), (0, "h1", 100.0), (3, "h2", 100.0)]  # fmt: skip
    assert [one.mono for one in found.ends] == [one.at for one in found.ends]
    assert (found.started_at, found.noticed_at) == (START, START + 99.75)
    assert found.host == "h1"
    assert [(p.node, p.host, p.first_rank, p.nproc, p.uncertainty_s) for p in found.parts] == [
        ("h1-0", "h1", 0, 2, 0.001), ("h2-0", "h2", 2, 2, 0.01)]  # fmt: skip


def test_a_clock_that_was_set_does_not_change_a_nodes_own_order() -> None:
    first = on("h2", 2, -9, 100.0)
    second = msgspec.structs.replace(on("h2", 3, -15, 100.5), at=START + 40.0)
    found = merge(case(TWO, report("h1"), report("h2", first, second)))
    assert [one.rank for one in found.ends] == [2, 3]
    assert found.ends[1].mono - found.ends[0].mono == 0.5


def test_counts_and_steps() -> None:
    one = report("h1", seen={"oom_kills": 1, "warm": (1, 0), **STEPS, "still_running": (0,)})
    two = report("h2", seen={"oom_kills": 2, "furthest_step": 900, "still_running": (2, 3)})
    found = merge(case(TWO, one, two))
    assert (found.oom_kills, [part.oom_kills for part in found.parts]) == (3, [1, 2])
    assert (found.furthest_step, found.first_step) == (120, 100)  # 900 is of this life only
    assert (found.warm, found.still_running) == ((0, 1), (0, 2, 3))
    without = merge(case(TWO, report("h1", seen={"furthest_step": 7}), two))
    assert (without.furthest_step, without.first_step) == (900, None)
    dead = msgspec.structs.replace(lost("h2"), ranks=(2, 3))
    seen = {"still_running": (0, 2, 3)}
    assert merge(case(TWO, report("h1", seen=seen), lost=(dead,))).still_running == (0,)


def test_a_stopped_rank_keeps_the_moment_of_its_stop() -> None:
    from diagnose.samples import stopped

    late = report("h2", seen={"noticed_at": NOTICED + 1.0, "stopped": (stopped(2, 2.5),)})
    found = merge(case(TWO, report("h1"), late))
    assert [one.seconds for one in found.stopped] == [1.5]
    assert decided(case(TWO, report("h1"), late)).diagnosis.first_rank == 2


def test_processes_that_cannot_be_killed() -> None:
    stuck = report("h2", on("h2", 2, -9), seen={"unkillable": (77,)})
    record = decided(case(TWO, report("h1", killed_by_us("h1", 0)), stuck))
    assert record.evidence.unkillable == ()
    assert [(t.node, t.kind, t.why) for t in record.evidence.nodes] == [
        ("h2-0", NodeTroubleKind.RECYCLE, "pid 77")]  # fmt: skip
    assert (record.diagnosis.class_, record.diagnosis.first_rank) == (
        FailureClass.WORKER_KILLED, 2)  # fmt: skip
    assert record.change is not None
    assert (record.change.verdict, record.change.remove) == (Verdict.GO, ("h2-0",))
    both = decided(case(TWO, report("h1", seen={"unkillable": (5,)}), stuck))
    assert both.evidence.unkillable == (5, 77)
    assert both.change is not None
    assert (both.change.verdict, both.change.exit_code) == (Verdict.STOP, 70)


def test_memory_that_ran_out_on_another_node_killed_nobody_here() -> None:
    here = report("h1", on("h1", 0, -9, 100.0))
    there = report("h2", killed_by_us("h2", 2), seen={"oom_kills": 1})
    assert decided(case(TWO, here, there)).diagnosis.class_ is FailureClass.WORKER_KILLED
    same = report("h1", on("h1", 0, -9, 100.0), seen={"oom_kills": 1})
    assert decided(case(TWO, same, report("h2"))).diagnosis.class_ is FailureClass.HOST_OOM
    victim = report("h1", on("h1", 0, 1, output="gloo_closed_by_peer"))
    unseen = decided(case(TWO, victim, there)).diagnosis
    assert (unseen.class_, unseen.host) == (FailureClass.HOST_OOM, "h2")
    assert "memory group on h2" in unseen.sentence


def test_all_done_is_the_end() -> None:
    done = [
        report("h1", on("h1", 0, 0), on("h1", 1, 0), state=NodeState.DONE),
        msgspec.structs.replace(report("h2", state=NodeState.DONE, leaving="SIGTERM"),
                                evidence=None),
    ]  # fmt: skip
    record = decided(case(TWO, *done, lost=(lost("h2"),), joining=(card("s-0"),)))
    assert record.diagnosis.kind is Kind.NO_FAILURE
    assert record.diagnosis.sentence == "No worker failed: both nodes ended with success."
    assert record.change is not None
    assert (record.change.verdict, record.change.exit_code, record.change.reason) == (
        Verdict.STOP, 0, "no worker failed")  # fmt: skip


@pytest.mark.parametrize("gone", [True, False])
def test_a_node_that_said_nothing_has_not_succeeded(gone: bool) -> None:
    done = report("h1", on("h1", 0, 0), on("h1", 1, 0), state=NodeState.DONE)
    silent = msgspec.structs.replace(report("h2"), evidence=None)
    one = case(TWO, done, lost=(lost("h2"),)) if gone else case(TWO, done, silent)
    record = decided(one)
    assert record.diagnosis.kind is not Kind.NO_FAILURE
    assert (record.decision.action is Action.STOP) is not gone
    assert record.decision.exit_code != 0


def test_a_group_of_one_is_judged_as_a_single_node() -> None:
    from diagnose.samples import end
    from diagnose.samples import evidence as of_one

    from decide.histories import one as judged

    seen = of_one(end(1, -9, step=5), end(0, 1, 100.1, output="gloo_closed_by_peer"))
    alone = NodeReport(attempt=0, node="host-0", state=NodeState.DEAD, evidence=seen)
    record = decided(case(view("host"), alone, proposer="host-0"))
    assert record.evidence.parts == ()
    assert (record.diagnosis, record.decision) == judged(seen)


LOST = case(TWO, report("h1", killed_by_us("h1", 0, 100.1), seen=STEPS), lost=(lost("h2"),))
HISTORY_ROWS = [
    ("lost", LOST, "node_lost", "infrastructure"),
    ("leaving", case(TWO, report("h1"), report("h2", leaving="SIGTERM")), "membership",
     "uncharged"),
    ("joining", case(TWO, report("h1"), report("h2"), joining=(card("s-0"),),
                     alarm=alarm(Trouble.JOINING, about="s")), "membership", "uncharged"),
    ("false alarm", case(TWO, report("h1"), report("h2"),
                         alarm=alarm(Trouble.NODE_LOST, about="h2")), "node_lost",
     "infrastructure"),
    ("a newcomer that went again", case(TWO, report("h1"), report("h2"),
                                        alarm=alarm(Trouble.JOINING, about="s")), "membership",
     "uncharged"),
    ("said that it leaves, and no more", case(TWO, report("h1"), report("h2"),
                                              alarm=alarm(Trouble.LEAVING, "h2")), "membership",
     "uncharged"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "class_", "budget"), [row[1:] for row in HISTORY_ROWS], ids=[r[0] for r in HISTORY_ROWS]
)
def test_nodes_come_and_go(one: GroupCase, class_: str, budget: str) -> None:
    record = decided(one)
    assert (record.diagnosis.class_.value, record.decision.budget.value) == (class_, budget)
    assert record.decision.action is Action.RESTART
    assert record.change is not None
    assert record.change.verdict is Verdict.GO


def again(record: GroupRecord, history: tuple[PastAttempt, ...]) -> tuple[PastAttempt, ...]:
    return (*history, remember(record.evidence, record.diagnosis, record.decision))


def test_nodes_that_come_and_go_never_end_a_run() -> None:
    history: tuple[PastAttempt, ...] = ()
    for number in range(30):
        kind = Trouble.JOINING if number % 2 else Trouble.LEAVING
        leaving = "" if number % 2 else "SIGTERM"
        one = case(TWO, report("h1"), report("h2", leaving=leaving), alarm=alarm(kind, "h2", "h2"))
        record = decided(one, history)
        assert record.decision.action is Action.RESTART
        history = again(record, history)
    # They hide no lack of progress either: two losses with nothing between but such changes.
    assert [one.budget for one in history] == [Budget.UNCHARGED] * 30
    first = decided(LOST, history)
    assert first.decision.action is Action.RESTART
    history = again(first, history)
    history = again(decided(one, history), history)
    second = decided(LOST, history)
    assert second.decision.action is Action.RESTART
    third = decided(LOST, again(second, history))
    assert (third.decision.action, third.decision.exit_code) == (Action.STOP, 1)
    assert "did not get beyond step 120" in third.decision.reason


def test_losses_are_counted_for_each_host() -> None:
    few = msgspec.structs.replace(TORCHRUN, infra_restarts_per_hour=1, stalled_attempts=0)
    members = view("h1", "h2", "h3")
    history: tuple[PastAttempt, ...] = ()
    codes = []
    for host in ("h2", "h3", "h2"):
        rest = [report(h, killed_by_us(h, 0)) for h in ("h1", "h2", "h3") if h != host]
        record = decided(case(members, *rest, lost=(lost(host),)), history, few)
        history = again(record, history)
        codes.append(record.decision.action.value)
    assert codes == ["restart", "restart", "stop"]
    assert "on h2" in record.decision.reason


def test_where_the_group_was_is_remembered() -> None:
    """No worker failed by itself: the furthest that was stopped tells how far the group was."""
    ends = [killed_by_us("h1", 0), msgspec.structs.replace(killed_by_us("h1", 1), step=None)]
    record = decided(case(TWO, report("h1", *ends), lost=(lost("h2"),)))
    past = remember(record.evidence, record.diagnosis, record.decision)
    assert (past.phase, past.made_progress) == ("step 120", True)


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ((), 75),
        ((on("h1", 0, -9, 90.0),), 75),  # it would have been restarted
        ((on("h1", 0, 1, 90.0, output="exception_rank1"),), 1),  # --max-restarts is 0
        ((on("h1", 0, 1, 90.0, output="syntax", phase=None, step=None),), 78),
    ],
)
def test_preemption_of_one_node_stops_all(ends: tuple, code: int) -> None:
    from resilient.model.evidence import Phase

    ends = tuple(msgspec.structs.replace(e, phase=e.phase or Phase.LOAD) for e in ends)
    one = case(
        view("h1", "h2", "h3"), report("h1", *ends), report("h2", preempted=True), report("h3"),
        joining=(card("s-0"),), alarm=alarm(Trouble.PREEMPTED, "h2"),
    )  # fmt: skip
    record = decided(one)
    assert (record.decision.action, record.decision.exit_code) == (Action.STOP, code)
    assert record.change is not None
    assert (record.change.verdict, record.change.exit_code) == (Verdict.STOP, code)
    if code == 75:
        assert "requeue" in record.decision.reason


def test_the_last_beat_is_the_alarms_where_that_is_earlier() -> None:
    """A proposer that relies on the speaker's observation has not heard the silence itself."""
    said = msgspec.structs.replace(alarm(Trouble.NODE_LOST, "h3", "h2", at=100.0), silent_s=3.0)
    one = case(
        view("h1", "h2", "h3"), report("h1"), report("h3", offset_s=2.0),
        lost=(lost("h2", 3.0, last=98.5),), alarm=said,
    )  # fmt: skip
    assert merge(one).nodes[0].at == START + 98.5
    early = msgspec.structs.replace(said, at=START + 99.0)
    assert merge(msgspec.structs.replace(one, alarm=early)).nodes[0].at == START + 98.0


# Properties


@settings(max_examples=300, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_total_recorded_and_the_same_for_everybody(one: GroupCase, chance: Random) -> None:
    record = decided(one, (), THREE)
    data = msgspec.json.encode(record)
    read = msgspec.json.decode(data, type=GroupRecord)
    assert read == record
    assert read.case is not None
    assert decided(read.case, read.history, read.allowance) == record
    shuffled = list(one.reports)
    chance.shuffle(shuffled)
    other = decided(msgspec.structs.replace(one, reports=tuple(shuffled)), (), THREE)
    assert (other.diagnosis, other.decision, other.change) == (
        record.diagnosis, record.decision, record.change)  # fmt: skip
    assert record.change is not None
    if record.decision.action is Action.STOP:
        assert record.change.verdict is Verdict.STOP
        assert record.change.exit_code == record.decision.exit_code
    assert remember(record.evidence, record.diagnosis, record.decision).attempt == 0


@settings(max_examples=300, deadline=None)
@given(cases())
def test_what_holds_for_every_decision(one: GroupCase) -> None:
    record = decided(one)
    diagnosis = record.diagnosis
    assert 0.0 <= diagnosis.confidence <= 1.0
    assert diagnosis.sentence.endswith(".")
    assert "\n" not in diagnosis.sentence
    members = {c.node for c in one.view.members}
    done = {r.node for r in one.reports if r.state is NodeState.DONE and r.attempt == 0}
    if done == members:
        assert (record.decision.exit_code == 0) or record.evidence.unkillable
    elif len(members) > 1:
        assert diagnosis.kind is not Kind.NO_FAILURE
    if diagnosis.class_ is FailureClass.MEMBERSHIP:
        assert record.decision.budget is Budget.UNCHARGED
        if not any(t.kind is NodeTroubleKind.PREEMPTED for t in record.evidence.nodes):
            assert record.decision.action is Action.RESTART or record.evidence.unkillable


@settings(max_examples=200, deadline=None)
@given(cases(), st.integers(-1000, 1000), st.integers(0, 3))
def test_a_clock_that_is_wrong_changes_nothing_once_its_offset_is_known(
    one: GroupCase, wrong_s: int, which: int
) -> None:
    """Sixteenths of a second, so that adding and taking away is exact."""

    def exact(report_: NodeReport, skew: float) -> NodeReport:
        seen = report_.evidence
        if seen is not None:
            seen = msgspec.structs.replace(
                seen,
                started_at=round(seen.started_at * 16) / 16 + skew,
                noticed_at=round(seen.noticed_at * 16) / 16 + skew,
                ends=tuple(
                    msgspec.structs.replace(
                        e, at=round(e.at * 16) / 16 + skew, mono=round(e.mono * 16) / 16
                    )
                    for e in seen.ends
                ),
            )
        offset = round(report_.offset_s * 16) / 16 - skew
        return msgspec.structs.replace(report_, offset_s=offset, evidence=seen)

    node = one.view.names[which % len(one.view.names)]
    right = msgspec.structs.replace(
        one, lost=(), alarm=None, reports=tuple(exact(r, 0.0) for r in one.reports)
    )
    wrong = msgspec.structs.replace(
        right,
        reports=tuple(exact(r, float(wrong_s) if r.node == node else 0.0) for r in one.reports),
    )
    assert decided(wrong).diagnosis == decided(right).diagnosis
    assert decided(wrong).change == decided(right).change


def test_a_large_group_is_decided_quickly() -> None:
    from time import perf_counter

    members = view(*(f"h{n}" for n in range(1250)))
    nproc = 2
    reports = [
        report(
            f"h{n}",
            *(on(f"h{n}", n * nproc + k, 1, output="gloo_closed_by_peer") for k in range(nproc)),
        )
        for n in range(1125)
    ]
    silent = tuple(lost(f"h{n}") for n in range(1125, 1250))
    began = perf_counter()
    record = decided(case(members, *reports, lost=silent, proposer="h0-0"))
    assert perf_counter() - began < 5.0  # about half a second; machines that run tests are busy
    assert record.diagnosis.class_ is FailureClass.NODE_LOST
    assert len(record.diagnosis.sentence) < 400
    assert len(record.diagnosis.evidence) < 20
    assert record.change is not None
    assert len(record.change.reason) < 200
