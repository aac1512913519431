"""Who takes part in the next attempt, and whether it can begin."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from decide.groups import card, case, cases, decided, killed_by_us, lost, report, view
from resilient.decide.membership import apply, change
from resilient.model.decision import Action, Budget, Decision
from resilient.model.membership import Change, GroupCase, NodeState, Verdict

RESTART = Decision(action=Action.RESTART, reason="it may pass", budget=Budget.INFRASTRUCTURE)
FOUR = view("h1", "h2", "h3", "h4")
ALL = tuple(report(f"h{n}") for n in range(1, 5))


def names(change_: Change, of: GroupCase) -> str:
    """The next attempt's hosts."""
    return " ".join(one.host for one in apply(of.view, change_).members)


ROWS: list[tuple[str, GroupCase, Verdict, str, str]] = [
    ("nothing happened to nodes", case(FOUR, *ALL), Verdict.GO, "h1 h2 h3 h4",
     "the same 4 nodes"),
    ("one lost", case(FOUR, *ALL[:2], ALL[3], lost=(lost("h3"),)), Verdict.GO, "h1 h2 h4",
     "3 nodes instead of 4; lost: h3"),
    ("lost, and a spare", case(FOUR, *ALL[1:], lost=(lost("h1"),), joining=(card("s1-0"),)),
     Verdict.GO, "h2 h3 h4 s1", "4 nodes; lost: h1; joining: s1"),
    ("one leaves", case(FOUR, *ALL[:3], report("h4", leaving="SIGTERM")), Verdict.GO, "h1 h2 h3",
     "3 nodes instead of 4; leaving (SIGTERM): h4"),
    ("one to be recycled", case(FOUR, *ALL[:3], report("h4", seen={"unkillable": (7,)})),
     Verdict.GO, "h1 h2 h3", "3 nodes instead of 4; in need of recycling: h4"),
    ("no room for all", case(FOUR, *ALL, joining=(card("s2-0"), card("s1-0")),
                             limits={"max_nodes": 5}),
     Verdict.GO, "h1 h2 h3 h4 s2", "5 nodes instead of 4; joining: s2"),
    ("known or twice", case(FOUR, *ALL, joining=(card("h1-0"), card("s-0"), card("s-0"))),
     Verdict.GO, "h1 h2 h3 h4 s", "5 nodes instead of 4; joining: s"),
    ("not given work again", case(FOUR, *ALL[:3], report("h4", leaving="SIGTERM"),
                                  joining=(card("h4-0"),)),
     Verdict.GO, "h1 h2 h3", "3 nodes instead of 4; leaving (SIGTERM): h4"),
    ("a lost node that came back as a newcomer",
     case(FOUR, *ALL[1:], lost=(lost("h1"),), joining=(card("h1-0"),)),
     Verdict.GO, "h2 h3 h4 h1", "4 nodes; lost: h1; joining: h1"),
    ("too few", case(FOUR, *ALL[:3], lost=(lost("h4"),), limits={"min_nodes": 4}),
     Verdict.WAIT, "", "3 nodes are there, at least 4 needed (--nnodes); waiting for another; "
     "lost: h4"),
    ("too few for too long",
     case(FOUR, *ALL[:1], lost=(lost("h2"), lost("h3"), lost("h4")), waited_s=600.0,
          limits={"min_nodes": 4}),
     Verdict.STOP, "", "1 node is there, at least 4 needed (--nnodes), and none came within 600 s; "
     "lost: h2, h3, h4"),
    ("wait for a spare", case(FOUR, *ALL[:3], lost=(lost("h4"),), limits={"on_loss": "wait"}),
     Verdict.WAIT, "", "waiting for 1 node (RESILIENT_ON_NODE_LOSS is wait); lost: h4"),
    ("waited for a spare in vain",
     case(FOUR, *ALL[:3], lost=(lost("h4"),), waited_s=601.0, limits={"on_loss": "wait"}),
     Verdict.GO, "h1 h2 h3", "3 nodes instead of 4; lost: h4"),
    ("the spare is there", case(FOUR, *ALL[:3], lost=(lost("h4"),), joining=(card("s-0"),),
                                limits={"on_loss": "wait"}),
     Verdict.GO, "h1 h2 h3 s", "4 nodes; lost: h4; joining: s"),
    ("nobody waits for one that left", case(FOUR, *ALL[:3], report("h4", leaving="SIGTERM"),
                                            limits={"on_loss": "wait"}),
     Verdict.GO, "h1 h2 h3", "3 nodes instead of 4; leaving (SIGTERM): h4"),
    ("stop on loss", case(FOUR, *ALL[:3], lost=(lost("h4"),), limits={"on_loss": "stop"}),
     Verdict.STOP, "", "a node is gone, and RESILIENT_ON_NODE_LOSS is stop; lost: h4"),
    ("leaving is no loss", case(FOUR, *ALL[:3], report("h4", leaving="SIGTERM"),
                                limits={"on_loss": "stop"}),
     Verdict.GO, "h1 h2 h3", "3 nodes instead of 4; leaving (SIGTERM): h4"),
    ("too few left to stop on loss", case(FOUR, *ALL[:3], report("h4", leaving="SIGTERM"),
                                          limits={"on_loss": "stop", "min_nodes": 4}),
     Verdict.STOP, "", "3 nodes are there, at least 4 needed (--nnodes); leaving (SIGTERM): h4"),
    ("all leave", case(view("h1"), report("h1", leaving="SIGTERM"), joining=(card("s-0"),)),
     Verdict.STOP, "", "no node of the group is left; leaving (SIGTERM): h1"),
    ("many", case(view(*(f"h{n}" for n in range(20))), report("h0"),
                  lost=tuple(lost(f"h{n}") for n in range(1, 20))),
     Verdict.GO, "h0", "1 node instead of 20; lost: h1, h2, h3, h4 and 15 more"),
    ("another attempt's report", case(FOUR, *ALL[:3], report("h4", attempt=3, leaving="SIGTERM")),
     Verdict.GO, "h1 h2 h3 h4", "the same 4 nodes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "verdict", "next_", "reason"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_changes(one: GroupCase, verdict: Verdict, next_: str, reason: str) -> None:
    found = change(one, RESTART)
    assert (found.verdict, found.reason) == (verdict, reason)
    if verdict is Verdict.GO:
        assert names(found, one) == next_
        assert apply(one.view, found).attempt == one.view.attempt + 1
    else:
        assert (found.add, found.exit_code) == ((), 1)


@pytest.mark.parametrize("code", [0, 1, 70, 75, 78])
def test_a_decision_to_stop_keeps_its_code(code: int) -> None:
    stop = Decision(action=Action.STOP, reason="why", budget=Budget.PROGRAM, exit_code=code)
    found = change(case(FOUR, *ALL[:3], lost=(lost("h4"),), joining=(card("s-0"),)), stop)
    assert (found.verdict, found.exit_code, found.reason) == (Verdict.STOP, code, "why")
    assert (found.remove, found.add) == (("h4-0",), ())


@settings(max_examples=400, deadline=None)
@given(cases())
def test_what_holds_for_every_change(one: GroupCase) -> None:
    found = change(one, RESTART)
    limits, before = one.limits, one.view.names
    assert found == change(one, RESTART)
    assert set(found.remove) <= set(before)
    if found.verdict is not Verdict.GO:
        assert found.add == ()
        waits = found.verdict is Verdict.WAIT
        assert not (waits and one.waited_s >= limits.wait_s)
        assert not (waits and limits.on_loss == "stop")
        return
    following = apply(one.view, found)
    after = following.names
    assert following.attempt == one.view.attempt + 1
    assert len(set(after)) == len(after)
    assert limits.min_nodes <= len(after) <= limits.max_nodes
    stay = tuple(name for name in before if name not in found.remove)
    assert stay == after[: len(stay)] != ()
    assert set(after[len(stay) :]) <= {card_.node for card_ in one.joining}
    gone = {r.node for r in one.reports if r.leaving and r.attempt == one.view.attempt}
    assert not gone & set(after)
    silent = {node.node for node in one.lost}
    assert not silent & set(stay)
    assert not (limits.on_loss == "stop" and silent - gone - {r.node for r in one.reports})


@settings(max_examples=100, deadline=None)
@given(cases())
def test_waiting_ends(one: GroupCase) -> None:
    late = msgspec.structs.replace(one, waited_s=one.limits.wait_s)
    assert change(late, RESTART).verdict is not Verdict.WAIT


def test_apply_never_doubles_a_name() -> None:
    twice = Change(verdict=Verdict.GO, reason="", add=(card("h1-0"), card("s-0"), card("s-0")))
    assert apply(FOUR, twice).names == (*FOUR.names, "s-0")


def test_a_run_of_losses_and_newcomers() -> None:
    """h2 is lost, comes back under another name, h1 leaves: places move up, new ones come last."""
    members, steps = view("h1", "h2", "h3"), []
    changes: list[dict[str, Any]] = [
        {"lost": (lost("h2"),)},
        {"joining": (card("h2b-0"),)},
        {"leaves": "h1"},
    ]
    for more in changes:
        leaves = more.pop("leaves", "")
        silent = [one.node for one in more.get("lost", ())]
        reports = [
            report(
                one.host,
                killed_by_us(one.host, 0),
                attempt=members.attempt,
                state=NodeState.DEAD,
                leaving="SIGTERM" if one.host == leaves else "",
            )
            for one in members.members
            if one.node not in silent
        ]
        record = decided(case(members, *reports, proposer=members.names[-1], **more))
        assert record.change is not None
        assert record.change.verdict is Verdict.GO
        members = apply(members, record.change)
        steps.append(" ".join(one.host for one in members.members))
    assert steps == ["h1 h3", "h1 h3 h2b", "h3 h2b"]
    assert members.attempt == 3
