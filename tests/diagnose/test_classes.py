"""The class, the kind and the words of each single cause."""

from typing import Any

import pytest

from diagnose.samples import end, evidence, said, stopped
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import Budget, PastAttempt
from resilient.model.diagnosis import FailureClass, Kind
from resilient.model.evidence import Phase, WorkerEnd

LOAD: dict[str, Any] = {"phase": Phase.LOAD, "step": None}


def early(rank: int, code: int, sample: str) -> WorkerEnd:
    return end(rank, code, output=sample, phase=Phase.LOAD, step=None)


SENTENCES = [
    (end(1, -9), "was killed by SIGKILL (not by resilient-run) at step 120; no out-of-memory"),
    (end(1, -15), "was killed by SIGTERM (not by resilient-run) at step 120."),
    (end(1, -9, **LOAD), "(not by resilient-run) before its first optimizer step;"),
    (end(1, -9, 12.3, phase=Phase.START, step=None), "resilient-run) 12.3 s after its start;"),
    (end(1, 137), "exited with 137 (a command of it was killed by SIGKILL) (not by res"),
    (end(1, -11), "crashed with SIGSEGV (invalid memory access) at step 120."),
    (end(1, -7), "crashed with SIGBUS"),
    (end(1, 3), "exited with 3 at step 120 and left no traceback."),
    (end(1, 1, output="system_exit_text"), "its last line: data directory is empty."),
    (end(1, 1, output="exception_rank1"),
     "raised ValueError at step 120: loss is NaN at step 17 (train.py:15 in main)."),
    (end(1, 2, output="usage_argparse", phase=Phase.START, step=None),
     "could not start as it was called: train.py: error: the following arguments are required"),
    (end(1, -2, output="keyboard_interrupt"), "was killed by SIGINT (not by resilient-run)"),
    (end(1, 1, output="keyboard_interrupt"), "was interrupted by SIGINT (not by resilient-run)"),
    (end(1, -6, output="gloo_enforce_abort"), "op.preamble.length <= op.nbytes. 16 vs 12"),
    (end(1, -6, output="state_dict"), "; it was then killed by SIGABRT."),
]  # fmt: skip


@pytest.mark.parametrize(("worker", "words"), SENTENCES)
def test_sentences(worker: WorkerEnd, words: str) -> None:
    sentence = diagnose(evidence(worker)).sentence
    assert sentence.startswith("Rank 1 (pid 4001 on host-a) ")
    assert words in sentence


KINDS = [
    (early(0, 2, "usage_argparse"), FailureClass.USER_ERROR, Kind.USAGE),
    (early(0, 2, "usage_no_script"), FailureClass.USER_ERROR, Kind.USAGE),
    (early(0, 1, "module_missing_dash_m"), FailureClass.USER_ERROR, Kind.IMPORT),
    (early(0, 1, "module_missing"), FailureClass.USER_ERROR, Kind.IMPORT),
    (early(0, 1, "import_name"), FailureClass.USER_ERROR, Kind.IMPORT),
    (early(0, 1, "name_at_import"), FailureClass.USER_ERROR, Kind.IMPORT),
    (early(0, 1, "syntax"), FailureClass.USER_ERROR, Kind.SYNTAX),
    (early(0, 1, "indentation"), FailureClass.USER_ERROR, Kind.SYNTAX),
    (early(0, 1, "recursion"), FailureClass.USER_ERROR, Kind.EXCEPTION),
    (early(0, 1, "exception_group"), FailureClass.USER_ERROR, Kind.EXCEPTION),
    (early(0, 1, "own_connection_refused"), FailureClass.USER_ERROR, Kind.ENVIRONMENT),
    (early(0, 1, "system_exit_text"), FailureClass.USER_ERROR, Kind.EXIT),
    (early(0, 1, "store_port_in_use"), FailureClass.RENDEZVOUS, Kind.OTHER),
    (early(0, 1, "store_clients_missing"), FailureClass.RENDEZVOUS, Kind.OTHER),
    (early(0, 1, "store_connect_timeout"), FailureClass.RENDEZVOUS, Kind.OTHER),
    (early(0, 1, "store_wait_timeout"), FailureClass.RENDEZVOUS, Kind.OTHER),
    (early(0, 1, "store_gone"), FailureClass.RENDEZVOUS, Kind.OTHER),
    (end(0, 1, output="store_gone"), FailureClass.PEER_GONE, Kind.OTHER),
    (end(0, 1, output="gloo_closed_by_peer"), FailureClass.PEER_GONE, Kind.OTHER),
    (end(0, 1, output="monitored_barrier"), FailureClass.PEER_GONE, Kind.OTHER),
    (end(0, 1, output="gloo_timed_out"), FailureClass.UNDETERMINED, Kind.OTHER),
    (end(0, 1, output="dataloader_killed"), FailureClass.WORKER_KILLED, Kind.OTHER),
    (end(0, 139), FailureClass.WORKER_CRASH, Kind.OTHER),
]  # fmt: skip


@pytest.mark.parametrize(("worker", "class_", "kind"), KINDS)
def test_class_and_kind(worker: WorkerEnd, class_: FailureClass, kind: Kind) -> None:
    found = diagnose(evidence(worker))
    assert (found.class_, found.kind) == (class_, kind)
    assert found.fingerprint


@pytest.mark.parametrize("worker", [end(1, -9), end(1, 137), end(1, 1, output="dataloader_killed")])
def test_out_of_memory_with_its_numbers(worker: WorkerEnd) -> None:
    found = diagnose(evidence(worker, oom_kills=2, attempt=3))
    assert (found.class_, found.first_rank) == (FailureClass.HOST_OOM, 1)
    assert "struck 2 times in this job's memory group during attempt 3" in found.sentence
    assert "+2" in said(found)


def test_out_of_memory_where_only_victims_speak() -> None:
    found = diagnose(evidence(end(0, 1, output="gloo_closed_by_peer"), oom_kills=1))
    assert (found.class_, found.first_rank) == (FailureClass.HOST_OOM, None)
    assert "once" in found.sentence


def test_an_exception_of_its_own_is_not_blamed_on_memory() -> None:
    found = diagnose(evidence(end(0, 1, output="state_dict"), oom_kills=1))
    assert found.class_ is FailureClass.USER_ERROR
    assert "+1" in said(found)


def test_only_victims() -> None:
    ends = [end(rank, 1, 100 + rank, output="gloo_closed_by_peer") for rank in (0, 2)]
    found = diagnose(evidence(*ends))
    assert (found.class_, found.first_rank, found.victims) == (FailureClass.PEER_GONE, None, (0, 2))
    assert found.confidence < 0.5
    assert "the first cause was not found here" in found.sentence
    assert "Look at the logs of the other nodes" in found.sentence


def test_a_rank_that_had_returned() -> None:
    gone, waits = end(1, 0, 99.0), end(0, 1, 100.0, output="gloo_closed_by_peer_again")
    found = diagnose(evidence(gone, waits))
    assert (found.class_, found.kind) == (FailureClass.RANK_ABSENT, Kind.RETURNED)
    assert (found.first_rank, found.victims) == (1, (0,))
    assert "had ended its script with success while rank 0 still needed it" in found.sentence
    later = diagnose(evidence(end(1, 0, 101.0), waits))
    assert later.class_ is FailureClass.PEER_GONE


def test_a_timeout_says_what_is_not_known() -> None:
    found = diagnose(evidence(end(0, 1, output="gloo_timed_out"), still_running=(1, 2)))
    assert found.first_rank is None
    assert "ranks 1 and 2 still ran then" in found.sentence
    assert "cannot be told" in found.sentence


def test_a_late_mismatch_is_ours() -> None:
    gone = end(1, 117, **LOAD)
    assert diagnose(evidence(gone, attempt=1)).class_ is FailureClass.WARM_START
    assert diagnose(evidence(gone, attempt=0)).class_ is FailureClass.USER_ERROR
    flagged = diagnose(evidence(end(1, 117, sent="SIGTERM"), attempt=1, late_mismatch=True))
    assert (flagged.class_, flagged.victims) == (FailureClass.WARM_START, ())
    killed = diagnose(evidence(end(0, -9, 90.0), gone, attempt=1, late_mismatch=True))
    assert killed.class_ is FailureClass.WORKER_KILLED


def test_several_stopped_ranks() -> None:
    found = diagnose(evidence(stopped=(stopped(2), stopped(1, 2.6))))
    assert (found.class_, found.first_rank) == (FailureClass.RANK_ABSENT, 1)


def test_nothing_at_all() -> None:
    assert diagnose(evidence()).class_ is FailureClass.UNDETERMINED
    running = diagnose(evidence(end(0, 0), still_running=(1,)))
    assert (running.class_, running.kind) == (FailureClass.UNDETERMINED, Kind.OTHER)


def test_history_is_quoted() -> None:
    found = diagnose(evidence(end(1, 1, output="exception_rank1")))
    past = PastAttempt(
        attempt=0, ended_at=1.0, diagnosis=found, budget=Budget.PROGRAM, phase="step 120"
    )
    again = diagnose(evidence(end(1, 1, output="exception_rank1"), attempt=1), (past,))
    assert "attempt 0 ended in the same way (step 120)" in said(again)
