"""Whole nodes as the first cause, and what may be said of the order between nodes."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnose.groups import (
    FENCED,
    JOINING,
    LEAVING,
    LOST,
    PREEMPTED,
    RECYCLE,
    group,
    on,
    trouble,
)
from diagnose.samples import said
from diagnose.strategies import evidences
from resilient.diagnose.parts import doubt_s, oom_kills, part_of
from resilient.diagnose.process_evidence import diagnose
from resilient.model.diagnosis import FailureClass, Kind
from resilient.model.evidence import AttemptEvidence, NodeTrouble, NodeTroubleKind, WorkerEnd

GONE = trouble(2, LOST, 96.9, silent_s=3.1)
CLOSED = on(0, 1, 97.0, output="gloo_closed_by_peer")
RAISED = {"output": "exception_rank1"}
UNKNOWN = "came first is not known"

SENTENCES: list[tuple[tuple[NodeTrouble, ...], FailureClass, int | None, str]] = [
    ((GONE,), FailureClass.NODE_LOST, 2, "Node h2 (ranks 2 and 3) fell silent: no heartbeat for "
     "3.1 s; its host, its agent or the network to it is gone."),
    ((GONE, trouble(3, LOST, 97.0, silent_s=3.0)), FailureClass.NODE_LOST, 2,
     "no heartbeat for 3.1 s (also node h3 (ranks 4 and 5));"),
    ((trouble(2, LOST, silent_s=3.0, why="it came back", alarmed=True),), FailureClass.NODE_LOST,
     2, "3.0 s; it came back, so it was slow or cut off for a time."),
    ((trouble(2, FENCED, silent_s=1.8, alarmed=True),), FailureClass.NODE_LOST, 2,
     "Node h2 (ranks 2 and 3) had no answer from the store that the nodes share for 1.8 s, so it "
     "killed its own workers;"),
    ((trouble(2, LEAVING, why="SIGTERM", alarmed=True),), FailureClass.MEMBERSHIP, 2,
     "Node h2 (ranks 2 and 3) was told to stop by SIGTERM; nothing of the program failed."),
    ((trouble(2, PREEMPTED, alarmed=True),), FailureClass.PREEMPTED, 2,
     "The platform takes node h2 (ranks 2 and 3) back."),
    ((trouble(4, JOINING, ranks=(), alarmed=True),), FailureClass.MEMBERSHIP, None,
     "Nothing failed: all ranks were stopped to take in node h4."),
    ((trouble(2, RECYCLE, alarmed=True),), FailureClass.MEMBERSHIP, 2,
     "Node h2 (ranks 2 and 3) left: a process on it cannot be killed."),
    (tuple(trouble(n, LEAVING, why="SIGTERM", alarmed=n == 1) for n in range(1, 7)),
     FailureClass.MEMBERSHIP, 0, "(also node h2 (ranks 2 and 3), node h3 (ranks 4 and 5), "
     "node h4 (ranks 6 and 7) and 2 more)"),
]  # fmt: skip


@pytest.mark.parametrize(("troubles", "class_", "first", "words"), SENTENCES)
def test_sentences(
    troubles: tuple[NodeTrouble, ...], class_: FailureClass, first: int | None, words: str
) -> None:
    found = diagnose(group(troubles=troubles))
    assert (found.class_, found.first_rank, found.host) == (class_, first, troubles[0].host)
    assert words in found.sentence
    assert UNKNOWN not in found.sentence
    assert found.confidence == 0.9
    assert found.evidence[0].source == "node"


Row = tuple[str, tuple[NodeTrouble, ...], tuple[WorkerEnd, ...], FailureClass, int | None]
ORDER: list[Row] = [
    ("victims of a lost node", (GONE,), (CLOSED,), FailureClass.NODE_LOST, 2),
    ("victims before its last beat, too", (GONE,),
     (on(0, 1, 96.0, output="gloo_closed_by_peer"),), FailureClass.NODE_LOST, 2),
    ("clearly before its last beat", (GONE,), (on(0, 1, 96.8, **RAISED),),
     FailureClass.USER_ERROR, 0),
    ("after its last beat", (GONE,), (on(0, 1, 97.1, **RAISED),), FailureClass.NODE_LOST, 2),
    ("a crash on the lost node, which had reported", (GONE,), (on(3, -11, 96.89),),
     FailureClass.WORKER_CRASH, 3),
    ("stopped for a newcomer", (trouble(4, JOINING, ranks=(), alarmed=True),),
     (on(0, 1, 100.2, output="gloo_closed_by_peer"), on(1, 3, 100.3)), FailureClass.MEMBERSHIP,
     None),
    ("a newcomer only waits", (trouble(4, JOINING, ranks=()),), (CLOSED,), FailureClass.PEER_GONE,
     None),
    ("failed before it was told to leave", (trouble(2, LEAVING, alarmed=True),),
     (on(0, -9, 99.0),), FailureClass.WORKER_KILLED, 0),
    ("failed on the node that leaves, when that was noticed",
     (trouble(2, LEAVING, alarmed=True),), (on(2, -9, 100.0),), FailureClass.WORKER_KILLED, 2),
    ("left while others stopped", (trouble(2, LEAVING),), (on(0, -9, 99.99),),
     FailureClass.WORKER_KILLED, 0),
    ("the earlier of two", (GONE, trouble(3, LEAVING, alarmed=True)), (), FailureClass.NODE_LOST,
     2),
    ("lost only after it had left", (trouble(2, LOST, 101.0), trouble(3, LEAVING, alarmed=True)),
     (), FailureClass.MEMBERSHIP, 4),
    ("an unkillable process is no cause", (trouble(2, RECYCLE),), (on(0, -9, 99.0),),
     FailureClass.WORKER_KILLED, 0),
    ("preempted, and one lost before", (GONE, trouble(3, PREEMPTED, alarmed=True)), (),
     FailureClass.NODE_LOST, 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("troubles", "ends", "class_", "first"),
    [row[1:] for row in ORDER],
    ids=[row[0] for row in ORDER],
)
def test_order(
    troubles: tuple[NodeTrouble, ...],
    ends: tuple[WorkerEnd, ...],
    class_: FailureClass,
    first: int | None,
) -> None:
    found = diagnose(group(*ends, troubles=troubles))
    assert (found.class_, found.first_rank) == (class_, first)
    assert UNKNOWN not in found.sentence
    assert found.victims == tuple(
        sorted(end.rank for end in ends if end.rank != first and end.exit_code)
    )


def test_a_failure_close_to_a_nodes_trouble() -> None:
    for at in (96.89, 96.91):
        found = diagnose(group(on(0, 1, at, **RAISED), troubles=(GONE,)))
        assert (found.class_, found.confidence) == (FailureClass.NODE_LOST, 0.5)
        assert f"the failure of rank 0 {UNKNOWN}" in found.sentence
    leaving = trouble(2, LEAVING, alarmed=True)
    found = diagnose(group(on(0, 1, 100.0, **RAISED), troubles=(leaving,)))
    assert (found.class_, found.confidence) == (FailureClass.MEMBERSHIP, 0.5)


def test_two_failures_on_two_nodes() -> None:
    killed = on(0, -9, 100.0)
    clear = diagnose(group(killed, on(2, -11, 100.03)))
    assert (clear.first_rank, clear.confidence) == (0, 0.9)
    close = diagnose(group(killed, on(2, -11, 100.015)))
    assert (close.first_rank, close.confidence, close.victims) == (0, 0.5, (2,))
    assert f"the failure of rank 2 {UNKNOWN}" in close.sentence
    here = diagnose(group(killed, on(1, -11, 100.015)))  # on one node the order is known
    assert (here.first_rank, here.confidence) == (0, 0.9)
    victim = diagnose(group(killed, on(2, 1, 100.0, output="gloo_closed_by_peer")))
    assert (victim.first_rank, victim.confidence) == (0, 0.9)  # its words tell, not its time
    alike = diagnose(group(on(0, 1, 100.0, **RAISED), on(2, 1, 100.0, **RAISED)))
    assert alike.confidence == 0.9
    assert "rank 2 failed in the same way" in alike.sentence


def test_returned_on_another_node() -> None:
    gone, waits = on(2, 0, 99.0), on(0, 1, 100.0, output="gloo_closed_by_peer")
    assert diagnose(group(gone, waits)).confidence == 0.6
    close = diagnose(group(on(2, 0, 99.99), waits))
    assert (close.kind, close.confidence) == (Kind.RETURNED, 0.5)
    assert UNKNOWN in close.sentence


def test_connections_on_two_nodes() -> None:
    ends = [on(rank, 1, 100.0 + rank / 1000, output="own_connection_refused") for rank in (0, 2)]
    other = msgspec.structs.replace(
        ends[1], error=msgspec.structs.replace(ends[1].error, fingerprint="other")
    )
    found = diagnose(group(ends[0], other, on(4, 1, 100.0, output="gloo_closed_by_peer")))
    assert found.confidence <= 0.5
    assert f"the failure of rank 2 {UNKNOWN}" in found.sentence


def test_only_victims_on_all_nodes() -> None:
    found = diagnose(group(CLOSED, on(2, 1, output="gloo_closed_by_peer")))
    assert found.class_ is FailureClass.PEER_GONE
    assert "was not found on any of the 3 nodes. Look at the kernel's logs" in found.sentence


def test_success_is_for_all_nodes_to_say() -> None:
    ends = (on(0, 0), on(1, 0))
    assert diagnose(group(*ends)).kind is Kind.OTHER
    for troubles in ((), (GONE,), (trouble(2, LEAVING, alarmed=True),)):
        found = diagnose(group(*ends, done=True, troubles=troubles))
        assert found.kind is Kind.NO_FAILURE
        assert found.sentence == "No worker failed: all 3 nodes ended with success."


def test_troubles_are_quoted() -> None:
    many = tuple(trouble(n, LOST, silent_s=n, alarmed=n == 1) for n in range(1, 40))
    found = diagnose(group(CLOSED, troubles=many))
    assert len(found.evidence) < 12
    assert "node h1 (ranks 0 and 1): no heartbeat for 1.0 s" in said(found)
    raised = diagnose(group(on(0, 1, 50.0, **RAISED), troubles=(GONE,)))
    assert "node h2 (ranks 2 and 3): no heartbeat for 3.1 s" in said(raised)


def test_parts() -> None:
    seen = group()
    assert [part_of(seen, rank).host for rank in range(6)] == ["h1", "h1", "h2", "h2", "h3", "h3"]
    assert part_of(seen, 6) is None
    assert part_of(seen, -1) is None
    assert part_of(msgspec.structs.replace(seen, parts=()), 0) is None
    assert (doubt_s(seen, 0, 1), doubt_s(seen, 0, 2)) == (0.0, 0.02)
    assert doubt_s(seen, 0, 99) == float("inf")
    assert oom_kills(msgspec.structs.replace(seen, oom_kills=3), 0) == 0


troubles_ = st.builds(
    trouble,
    st.integers(1, 4),
    st.sampled_from(NodeTroubleKind),
    st.floats(95, 105),
    alarmed=st.booleans(),
    uncertainty_s=st.floats(0, 0.5),
)


@settings(max_examples=500, deadline=None)
@given(evidences, st.lists(troubles_, max_size=3), st.floats(0, 0.5), st.integers(1, 3))
def test_total_with_nodes(
    seen: AttemptEvidence, troubles: list[NodeTrouble], uncertainty_s: float, nodes: int
) -> None:
    parts = group(nodes=nodes, uncertainty_s=uncertainty_s).parts
    found = diagnose(msgspec.structs.replace(seen, nodes=tuple(troubles), parts=parts))
    assert 0.0 <= found.confidence <= 1.0
    assert found.sentence.endswith(".")
    assert (UNKNOWN in found.sentence) <= (found.confidence <= 0.5)
    if found.class_ is FailureClass.NODE_LOST:
        assert any(one.kind in (LOST, FENCED) for one in troubles)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([-9, -11, 3]),
            st.floats(99, 101),
        ),
        min_size=2,
        max_size=6,
    ),
    st.floats(0, 0.3),
)
def test_no_order_between_nodes_is_claimed_that_the_clocks_do_not_show(
    deaths: list[tuple[int, float]], uncertainty_s: float
) -> None:
    ends = [on(rank, code, at) for rank, (code, at) in enumerate(deaths)]
    found = diagnose(group(*ends, uncertainty_s=uncertainty_s))
    first = ends[found.first_rank]
    rivals = [
        end
        for end in ends
        if end.host != first.host
        and end.exit_code != first.exit_code
        and abs(end.mono - first.mono) <= 2 * uncertainty_s
    ]
    assert (UNKNOWN in found.sentence) is bool(rivals)
    if rivals:
        assert found.confidence <= 0.5


def test_the_evidence_of_one_node_knows_no_doubt() -> None:
    from diagnose.samples import end, evidence

    found = diagnose(evidence(end(0, -9, 100.0), end(1, -11, 100.0)))
    assert found.confidence == 0.9
    assert found.host == "host-a"
