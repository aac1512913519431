"""Ranks that a signal ends, stops or traces, and the peers that only follow them."""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.starting import Batch, killed_at_last, start

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207

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
    assert "SIGKILL from outside" in ended.report


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


WAITING = """
from note import ATTEMPT, RANK, note, wait_for
import sys, time
note("start")
if ATTEMPT:
    sys.exit(0)
while True:
    note("beat")
    time.sleep(0.1)
"""
ENDING = WAITING.replace("while True:", "while not os.path.exists(HERE + '/end'):").replace(
    "import sys", "from note import HERE\nimport os, sys"
)


def test_a_stopped_rank_is_found_and_named(tmp_path: Path) -> None:
    with killed_at_last(start(tmp_path, WAITING)) as job:
        pid = job.noted("beat", rank=1)[0]["pid"]
        job.noted("beat", rank=0)
        os.kill(pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        ended = job.end()
    again = min(note["at"] for note in ended.noted("start", attempt=1))
    assert again - stopped_at < 5.0 + 3.0  # 5 s is promised; these machines are slow
    assert ended.code == 0
    assert ended.incidents == [("rank_absent", 1, "restart")]
    assert "was stopped" in ended.report


def test_a_pause_of_all_ranks_is_no_failure(tmp_path: Path) -> None:
    with killed_at_last(start(tmp_path, ENDING, env={"RESILIENT_STOPPED_S": "0.5"})) as job:
        pids = [job.noted("beat", rank=rank)[0]["pid"] for rank in (0, 1)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        (tmp_path / "end").touch()
        ended = job.end()
    assert ended.code == 0
    assert not ended.incidents


@contextmanager
def traced(pid: int) -> Iterator[None]:
    """Hold a process as a debugger does."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        assert ptrace(request, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED)  # only then it may be let go
        yield
    finally:
        assert ptrace(PTRACE_DETACH, pid, None, None) == 0, os.strerror(ctypes.get_errno())


def test_a_rank_in_a_debugger_is_no_failure(tmp_path: Path) -> None:
    with killed_at_last(start(tmp_path, ENDING, env={"RESILIENT_STOPPED_S": "0.5"})) as job:
        pid = job.noted("beat", rank=1)[0]["pid"]
        with traced(pid):
            assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "t"
            time.sleep(2.0)
        (tmp_path / "end").touch()
        ended = job.end()
    assert ended.code == 0
    assert not ended.incidents
