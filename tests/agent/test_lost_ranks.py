"""Ranks that a signal ends, stops or traces, and the peers that only follow them."""

from collections.abc import Callable

import pytest

from agent.starting import Batch

ONCE = """
from note import ATTEMPT, RANK, note, wait_for
import os, signal, sys, time
note("start")
if ATTEMPT:
    sys.exit(0)
if RANK == 0:
    time.sleep(60)
wait_for("start", 2)
"""
PEER_GONE = """
RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer \
[127.0.0.1]:4711"""
SCRIPTS = {
    "killed": ("", ONCE + "os.kill(os.getpid(), signal.SIGKILL)"),
    "crash twice": (
        "--max-restarts=5",
        ONCE.replace("if ATTEMPT:", "if ATTEMPT > 4:") + "os.kill(os.getpid(), signal.SIGSEGV)",
    ),
    "victim first": (
        "--max-restarts=1",
        ONCE.replace("time.sleep(60)", f"raise RuntimeError({PEER_GONE.strip()!r})")
        + "time.sleep(0.4)\nraise ValueError('it was me')",
    ),
    "victim first, killed": (
        "",
        ONCE.replace("time.sleep(60)", f"raise RuntimeError({PEER_GONE.strip()!r})")
        + "time.sleep(0.4)\nos.kill(os.getpid(), signal.SIGKILL)",
    ),
    "term ignored": (
        "",
        ONCE.replace(
            "if RANK == 0:",
            "if RANK == 0:\n"
            "    signal.signal(signal.SIGTERM, lambda *_: note('term'))\n"
            "    note('deaf')",
        ).replace("time.sleep(60)", "[time.sleep(1) for _ in range(60)]")
        + "wait_for('deaf'); os.kill(os.getpid(), signal.SIGKILL)",
    ),
}


@pytest.fixture(scope="module")
def batch(new_batch: Callable[[], Batch]) -> Batch:
    runs = new_batch()
    for name, (flags, text) in SCRIPTS.items():
        runs.add(name, text, flags)
    return runs


def test_sigkill_comes_back_without_max_restarts(batch: Batch) -> None:
    ended = batch["killed"]
    assert ended.code == 0
    assert ended.incidents == [("worker_killed", 1, "restart")]
    assert "SIGKILL (not by" in ended.report


def test_a_crash_at_the_same_place_twice_is_not_tried_again(batch: Batch) -> None:
    ended = batch["crash twice"]
    assert ended.code == 78
    assert ended.attempts == 2
    assert ended.incidents[-1] == ("worker_crash", 1, "stop")
    assert "SIGSEGV" in ended.report


@pytest.mark.parametrize(
    ("name", "class_"), [("victim first", "user_error"), ("victim first, killed", "worker_killed")]
)
def test_a_victim_that_dies_first_is_not_the_cause(batch: Batch, name: str, class_: str) -> None:
    ended = batch[name]
    assert ended.code == 0
    assert ended.incidents == [(class_, 1, "restart")]
    assert ended.run.incidents[0].victims == (0,)


def test_a_survivor_with_a_handler_gets_a_second(batch: Batch) -> None:
    """Its handler runs once; after the fault grace (1 s) it is killed, and is not named."""
    ended = batch["term ignored"]
    assert ended.code == 0
    assert len(ended.noted("term")) == 1
    exits = {e["rank"]: e["sent"] for e in ended.events("worker.exit") if e["attempt"] == 0}
    assert exits == {1: "", 0: "SIGKILL"}
    assert ended.incidents == [("worker_killed", 1, "restart")]
    assert "Rank 0" not in ended.report
