"""Which rank is named first, and which are victims."""

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnose.samples import end, error, evidence, stopped
from diagnose.strategies import evidences
from resilient.diagnose.process_evidence import diagnose, speaks_of_a_peer
from resilient.model.diagnosis import FailureClass, Kind
from resilient.model.evidence import AttemptEvidence, Phase, WorkerEnd

KILLED = end(1, -9, 100.0)
CLOSED = end(0, 1, 100.01, output="gloo_closed_by_peer")
RAISED = end(1, 1, 100.0, output="exception_rank1")
CRASHED = end(1, -11, 100.0)
NCCL_DOWN = end(
    0,
    -6,
    100.0,
    tail=(
        "[rank0]:[E1130 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE) ran for 600000 milliseconds",
        "[rank0]:[E1130 ProcessGroupNCCL.cpp:684] To avoid data inconsistency, we are taking the "
        "entire process down.",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
    ),
)
ORDER = [  # ends, class, first rank, victims
    ("sigkill and a victim", (KILLED, CLOSED), FailureClass.WORKER_KILLED, 1, (0,)),
    ("the victim died first", (end(0, 1, 99.0, output="gloo_reset_by_peer"), KILLED),
     FailureClass.WORKER_KILLED, 1, (0,)),
    ("long before", (end(0, 1, 5.0, output="gloo_timed_out"), RAISED),
     FailureClass.USER_ERROR, 1, (0,)),
    ("an exception and a victim", (CLOSED, RAISED), FailureClass.USER_ERROR, 1, (0,)),
    ("wrapped victim", (end(0, 1, 99.0, output="gloo_wrapped"), KILLED),
     FailureClass.WORKER_KILLED, 1, (0,)),
    ("traceback beats signal within a second", (KILLED, end(0, 1, 100.9, output="state_dict")),
     FailureClass.USER_ERROR, 0, (1,)),
    ("but not later", (KILLED, end(0, 1, 101.2, output="state_dict")),
     FailureClass.WORKER_KILLED, 1, (0,)),
    ("signal beats bare code", (end(0, 3, 99.5), KILLED), FailureClass.WORKER_KILLED, 1, (0,)),
    ("bare code beats victims", (CLOSED, end(1, 3, 100.5)), FailureClass.USER_ERROR, 1, (0,)),
    ("crash and a victim", (CRASHED, CLOSED), FailureClass.WORKER_CRASH, 1, (0,)),
    ("mismatch aborts in gloo", (end(0, -6, 100.0, tail=("  what():  [enforce fail] 16 vs 12",)),
     end(1, 1, 100.0, output="gloo_reset_by_peer")), FailureClass.WORKER_CRASH, 0, (1,)),
    ("watchdog's abort is a victim", (NCCL_DOWN, end(1, -9, 100.5)),
     FailureClass.WORKER_KILLED, 1, (0,)),
    ("store waits for a killed rank", (end(1, -9, 90.0, phase=Phase.LOAD, step=None),
     end(0, 1, 94.0, phase=Phase.LOAD, step=None, output="store_wait_timeout")),
     FailureClass.WORKER_KILLED, 1, (0,)),
    ("own connection gives way to a signal", (end(0, 1, 99.9, output="own_connection_refused"),
     KILLED), FailureClass.WORKER_KILLED, 1, (0,)),
    ("exception, then abort at exit", (end(1, -6, 100.0, output="state_dict"), CLOSED),
     FailureClass.USER_ERROR, 1, (0,)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "class_", "first", "victims"), [row[1:] for row in ORDER], ids=[r[0] for r in ORDER]
)
def test_order_of_evidence(
    ends: tuple[WorkerEnd, ...], class_: FailureClass, first: int, victims: tuple[int, ...]
) -> None:
    for order in (ends, ends[::-1]):
        found = diagnose(evidence(*order))
        assert (found.class_, found.first_rank, found.victims) == (class_, first, victims)
        assert found.confidence >= 0.5
        assert f"ank {first} (pid {4000 + first} on host-a)" in found.sentence


def test_an_exception_raised_from_a_lost_peer_is_no_cause() -> None:
    found = diagnose(evidence(end(0, 1, output="gloo_wrapped")))
    assert (found.class_, found.first_rank) == (FailureClass.PEER_GONE, None)


def test_a_lost_peer_while_handling_an_exception_of_its_own() -> None:
    """Either came first: named where nothing better is known, and with little confidence."""
    peer = error("gloo_closed_by_peer")
    both = msgspec.structs.replace(peer, related=("ValueError: bad batch",))
    mixed = end(0, 1, 99.0, error=both)
    alone = diagnose(evidence(mixed, CLOSED))
    assert (alone.class_, alone.first_rank) == (FailureClass.USER_ERROR, 0)
    assert alone.confidence <= 0.5
    assert diagnose(evidence(mixed, KILLED)).first_rank == 1


def test_deaths_of_ours_are_never_evidence() -> None:
    ours = (end(0, -15, 1.0, sent="SIGTERM"), end(2, 1, 2.0, output="state_dict", sent="SIGTERM"))
    found = diagnose(evidence(*ours, KILLED))
    assert (found.first_rank, found.victims) == (1, ())
    found = diagnose(evidence(*ours))
    assert (found.class_, found.first_rank) == (FailureClass.UNDETERMINED, None)
    assert "4000" not in found.sentence


def test_a_stopped_rank_is_named_and_what_it_led_to_is_a_victim() -> None:
    waited = end(0, 1, 104.0, output="gloo_timed_out")
    killed = end(1, -9, 104.5, sent="SIGKILL")
    found = diagnose(evidence(waited, killed, stopped=(stopped(1, 2.5),)))
    assert (found.class_, found.first_rank) == (FailureClass.RANK_ABSENT, 1)
    assert found.victims == (0,)
    assert "state T" in found.sentence
    assert "at step 7" in found.sentence
    # What had failed before it was stopped comes first.
    early = end(0, 1, 90.0, output="state_dict")
    found = diagnose(evidence(early, killed, noticed_at=killed.at, stopped=(stopped(1, 2.5),)))
    assert (found.class_, found.first_rank) == (FailureClass.USER_ERROR, 0)


def test_all_ranks_alike_are_no_victims() -> None:
    ends = [end(rank, 1, 100 + rank / 10, output="module_missing") for rank in (2, 0, 1)]
    found = diagnose(evidence(*ends))
    assert (found.first_rank, found.victims) == (0, ())
    assert "ranks 1 and 2 failed in the same way" in found.sentence


def test_latched_success_is_no_failure_unless_strict() -> None:
    ends = (end(0, 0), end(1, -11, main_ended=True, phase=Phase.TEARDOWN))
    found = diagnose(evidence(*ends))
    assert found.kind is Kind.NO_FAILURE
    assert "SIGSEGV" in "".join(line.text for line in found.evidence)
    found = diagnose(evidence(*ends), strict=True)
    assert (found.class_, found.first_rank) == (FailureClass.WORKER_CRASH, 1)
    assert "after its script had ended" in found.sentence


@pytest.mark.parametrize(
    ("worker", "peer"),
    [(CLOSED, True), (NCCL_DOWN, True), (KILLED, False), (RAISED, False), (end(0, 3), False)],
)
def test_speaks_of_a_peer(worker: WorkerEnd, peer: bool) -> None:
    assert speaks_of_a_peer(worker) is peer


@settings(max_examples=1000, deadline=None)
@given(evidences, st.booleans(), st.randoms(use_true_random=False))
def test_total_and_of_any_order(seen: AttemptEvidence, strict: bool, chance: Random) -> None:
    """One end a rank, one stop a rank: then the order in which they are recorded is no matter."""
    ends = list({one.rank: one for one in seen.ends}.values())
    stops = list({one.rank: one for one in seen.stopped}.values())
    one = msgspec.structs.replace(seen, ends=tuple(ends), stopped=tuple(stops))
    chance.shuffle(ends)
    chance.shuffle(stops)
    two = msgspec.structs.replace(seen, ends=tuple(ends), stopped=tuple(stops))
    assert diagnose(one, strict=strict) == diagnose(two, strict=strict)


@settings(max_examples=1000, deadline=None)
@given(evidences, st.booleans())
def test_nobody_that_we_killed_is_named(seen: AttemptEvidence, strict: bool) -> None:
    found = diagnose(seen, strict=strict)
    own = {one.rank for one in seen.ends if not one.ours} | {one.rank for one in seen.stopped}
    if found.class_ is not FailureClass.WARM_START:
        assert found.first_rank in {None, *own}
        assert set(found.victims) <= own
    assert 0.0 <= found.confidence <= 1.0
    assert found.sentence.endswith(".")
    assert "\n" not in found.sentence
