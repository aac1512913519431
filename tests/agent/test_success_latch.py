"""Success is latched per worker: what goes wrong after the script's end undoes nothing."""

from collections.abc import Callable

import pytest

from agent.starting import Batch, free_port

LATE_CRASH = """
import atexit, os, signal, sys
from note import RANK, note
if RANK == 1:
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
note("done")
"""
STAGGERED = """
import sys, time
import torch.distributed as dist
from note import RANK, note
dist.init_process_group("gloo")
dist.barrier()
note("done")
if RANK == 1:
    time.sleep(3)
"""


@pytest.fixture(scope="module")
def batch(new_batch: Callable[[], Batch]) -> Batch:
    runs = new_batch()
    runs.add("returns", LATE_CRASH)
    runs.add("exits 0", LATE_CRASH + "sys.exit(0)")
    runs.add("strict", LATE_CRASH, env={"RESILIENT_STRICT_EXIT": "1"})
    runs.add("exits 3", LATE_CRASH + "sys.exit(3 * RANK)")
    runs.add("raises", LATE_CRASH + "if RANK == 1: raise ValueError('real')")
    runs.add("staggered", STAGGERED)
    runs.add("staggered static", STAGGERED, rendezvous=f"--master-port={free_port()}")
    return runs


@pytest.mark.parametrize("name", ["returns", "exits 0"])
def test_a_signal_after_the_end_of_main_is_a_warning(batch: Batch, name: str) -> None:
    ended = batch[name]
    assert ended.code == 0
    assert ended.attempts == 1
    assert not ended.incidents
    assert "SIGSEGV" in ended.err, "no warning"
    assert "Rank 1" in ended.err


def test_strict_exit_makes_it_a_failure(batch: Batch) -> None:
    """torchrun's verdict; as a crash it is retried once, then it is the same again."""
    ended = batch["strict"]
    assert ended.code in (1, 78)
    assert ended.incidents[0][:2] == ("worker_crash", 1)


@pytest.mark.parametrize("name", ["exits 3", "raises"])
def test_a_failure_stays_one(batch: Batch, name: str) -> None:
    ended = batch[name]
    assert ended.code != 0
    assert ended.incidents[0][1] == 1


@pytest.mark.parametrize("name", ["staggered", "staggered static"])
def test_ranks_may_end_at_different_times(batch: Batch, name: str) -> None:
    """T28: rank 0, whose agent holds the store, ends 3 s before rank 1."""
    ended = batch[name]
    assert ended.code == 0
    assert not ended.incidents
    assert {line["rank"] for line in ended.noted("done")} == {0, 1}
