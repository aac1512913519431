"""As an ordinary user, and as the first process of a container."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from containment.surroundings import as_nobody, open_folder

from agent.jobs import Job
from agent.starting import BIN, killed_at_last, write
from resilient.sense.processes import descendants

pytestmark = pytest.mark.root

RESTARTS = """
from note import ATTEMPT, RANK, note, wait_for
import os, signal, subprocess, sys, time
note("start", uid=os.getuid())
if ATTEMPT == 0:
    subprocess.Popen(["setsid", "-f", "sleep", "600"])
    wait_for("start", 2)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
"""
WAITS = """
from note import note
import subprocess, time
subprocess.Popen(["setsid", "-f", "sleep", "600"])
note("start")
time.sleep(600)
"""
FIRST = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Every user may write to it."""
    with open_folder() as path:
        yield Path(path)


def words(folder: Path, text: str) -> list[str]:
    script = write(folder, text)
    return [str(BIN / "resilient-run"), "--standalone", "--nproc-per-node=2", str(script)]


def test_an_ordinary_user(folder: Path) -> None:
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o777)
    command = as_nobody(words(folder, RESTARTS), str(folder))
    with killed_at_last(Job(folder, command, {"HOME": "/nonexistent"})) as job:
        ended = job.end()
    assert ended.code == 0
    assert ended.incidents == [("worker_killed", 1, "restart")]
    assert {line["uid"] for line in ended.noted("start")} == {65534}
    assert ended.run.path.stat().st_uid == 65534


def test_as_process_1(folder: Path) -> None:
    with killed_at_last(Job(folder, [*FIRST, *words(folder, RESTARTS)])) as job:
        ended = job.end()
    assert ended.code == 0
    assert ended.incidents == [("worker_killed", 1, "restart")]


def keeper(job: Job) -> int:
    """Seen from outside: the child of `unshare`."""
    return next(p.pid for p in descendants(job.pid) if p.ppid == job.pid)


def test_a_container_is_stopped(folder: Path) -> None:
    with killed_at_last(Job(folder, [*FIRST, *words(folder, WAITS)])) as job:
        job.noted("start", 2)
        os.kill(keeper(job), signal.SIGTERM)
        ended = job.end()
    assert ended.code == 1
    assert ended.run.run.sentence == "Stopped by SIGTERM from outside."


def test_process_1_cannot_die_of_a_signal(folder: Path) -> None:
    """Where the agent is killed, the exit code says it."""
    with killed_at_last(Job(folder, [*FIRST, *words(folder, WAITS)])) as job:
        job.noted("start", 2)
        first = keeper(job)
        os.kill(next(p.pid for p in descendants(first) if p.ppid == first), signal.SIGKILL)
        ended = job.end()
    assert ended.code == 128 + signal.SIGKILL
