"""Ranks that are stopped: one alone is lost, all together are paused, a traced one is debugged."""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.ended import Ended
from agent.starting import killed_at_last, start

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
SOON = {"RESILIENT_STOPPED_S": "0.5"}

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


def one(folder: Path) -> Ended:
    """Notes when it was stopped, beside the script's notes."""
    with killed_at_last(start(folder, WAITING)) as job:
        pid = job.noted("beat", rank=1)[0]["pid"]
        job.noted("beat", rank=0)
        os.kill(pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        ended = job.end()
    ended.notes.append({"kind": "stopped", "at": stopped_at})
    return ended


def all_of_them(folder: Path) -> Ended:
    with killed_at_last(start(folder, ENDING, env=SOON)) as job:
        pids = [job.noted("beat", rank=rank)[0]["pid"] for rank in (0, 1)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        (folder / "end").touch()
        return job.end()


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


def in_a_debugger(folder: Path) -> Ended:
    with killed_at_last(start(folder, ENDING, env=SOON)) as job:
        pid = job.noted("beat", rank=1)[0]["pid"]
        with traced(pid):
            assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "t"
            time.sleep(2.5)
        (folder / "end").touch()
        return job.end()


def the_last_one(folder: Path) -> Ended:
    """The other one has ended with success, so nobody waits for the one that is stopped."""
    script = ENDING.replace('note("start")', 'note("start")\nRANK or sys.exit(0)').replace(
        "import sys", "from note import RANK\nimport sys"
    )
    with killed_at_last(start(folder, script, env=SOON)) as job:
        other, pid = (job.noted("start", rank=rank)[0]["pid"] for rank in (0, 1))
        job.until(lambda: not Path(f"/proc/{other}").exists(), "the end of rank 0")
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(pid, signal.SIGCONT)
        (folder / "end").touch()
        return job.end()


STOPS = {f.__name__: f for f in (one, all_of_them, in_a_debugger, the_last_one)}


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, several: Callable[..., Callable[[str], Ended]]
) -> Callable[[str], Ended]:
    folder = tmp_path_factory.mktemp("stopped")
    return several(lambda name: STOPS[name](folder / name), STOPS)


def test_one_that_is_stopped_is_found_and_named(runs: Callable[[str], Ended]) -> None:
    ended = runs("one")
    again = min(line["at"] for line in ended.noted("start", attempt=1))
    seconds = again - ended.noted("stopped")[0]["at"]
    assert seconds < 5.0 + 3.0  # 5 s is promised; machines that run tests are slow
    assert ended.code == 0
    assert ended.incidents == [("rank_absent", 1, "restart")]
    assert "was stopped" in ended.report


@pytest.mark.parametrize("name", ["all_of_them", "in_a_debugger", "the_last_one"])
def test_this_is_no_failure(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    assert ended.code == 0
    assert not ended.incidents
