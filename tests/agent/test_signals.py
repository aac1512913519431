"""Signals to the launcher: workers get them once, and it ends as torchrun does."""

import os
import pty
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agent.ended import Ended
from agent.jobs import Job
from agent.starting import BIN, RESILIENT, TORCHRUN, killed_at_last, start, write

# `LEAVE` is what the handler does after its note
HANDLES = """
from note import RANK, note
import os, signal, sys, time

def handler(number, frame):
    note("signal", number=number)
    LEAVE

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, handler)
note("ready")
while True:
    time.sleep(0.2)
"""
DEAF = HANDLES.replace("LEAVE", "pass")
BOTH = [RESILIENT, TORCHRUN]
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]


def outcome(ended: Ended) -> tuple[int, list[tuple[int, int]]]:
    """Exit code, and which rank's handler ran for which signal."""
    heard = [(line["rank"], line["number"]) for line in ended.noted("signal")]
    return ended.code, sorted(heard)


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
@pytest.mark.parametrize("leave", ["time.sleep(0.3); sys.exit(0)"])
def test_as_under_torchrun(tmp_path: Path, signum: signal.Signals, leave: str) -> None:
    script = HANDLES.replace("LEAVE", leave)
    seen = {}
    jobs = {name: start(tmp_path / name, script, launcher=name) for name in BOTH}
    with killed_at_last(jobs[RESILIENT]), killed_at_last(jobs[TORCHRUN]):
        for job in jobs.values():
            job.noted("ready", 2)
            job.signal(signum)
        for name, job in jobs.items():
            ended = job.end(clean=name == RESILIENT)  # torchrun leaves its folders
            seen[name] = outcome(ended)
            assert f"got signal: {signum.value}" in ended.err
            if name == RESILIENT:
                assert f"Stopped by {signum.name} from outside." in ended.err
                assert ended.run.run.exit_code == ended.code
                assert not ended.incidents
    assert seen[RESILIENT] == seen[TORCHRUN]
    assert seen[RESILIENT][1] == [(0, signum), (1, signum)]


def test_the_stop_grace_is_respected(tmp_path: Path) -> None:
    with killed_at_last(start(tmp_path, DEAF, env={"RESILIENT_STOP_GRACE_S": "1"})) as job:
        job.noted("ready", 2)
        sent = time.monotonic()
        job.signal(signal.SIGTERM)
        ended = job.end()
        assert 0.9 < time.monotonic() - sent < 15
    assert outcome(ended) == (1, [(0, 15), (1, 15)])
    assert {event["sent"] for event in ended.events("worker.exit")} == {"SIGKILL"}


def test_a_second_ctrl_c_kills_at_once(tmp_path: Path) -> None:
    """The first one would wait for torchrun's 30 s."""
    with killed_at_last(start(tmp_path, DEAF)) as job:
        job.noted("ready", 2)
        job.signal(signal.SIGINT)
        job.noted("signal", 2)
        time.sleep(1.0)
        again = time.monotonic()
        job.signal(signal.SIGINT)
        ended = job.end()
        assert time.monotonic() - again < 12
    assert ended.code == 1


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """A pty whose output is read away; its two ends."""
    ours, theirs = pty.openpty()

    def read() -> None:
        with suppress(OSError):
            while os.read(ours, 65536):
                pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield ours, theirs
    finally:
        os.close(theirs)
        reader.join(20)
        os.close(ours)


@pytest.mark.parametrize("launcher", BOTH)
def test_ctrl_c_at_a_terminal(tmp_path: Path, launcher: str) -> None:
    """Once to each worker, and the code of torchrun, whose workers lead sessions as well."""
    script = write(tmp_path, HANDLES.replace("LEAVE", "sys.exit(0)"))
    words = ["setsid", "--ctty", BIN / launcher, "--standalone", "--nproc-per-node=2", script]
    with terminal() as (ours, theirs):
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        with killed_at_last(Job(tmp_path, words, start_new_session=True, **streams)) as job:
            job.noted("ready", 2)
            os.write(ours, b"\x03")
            ended = job.end(clean=launcher == RESILIENT)
    assert outcome(ended) == (1, [(0, 2), (1, 2)])
