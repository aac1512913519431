"""The run directory's disk may hang or be full: the job does not notice. A worker's own may not."""

import os
import time
from pathlib import Path

import pytest

from agent.disks import frozen, full, in_state_d
from agent.starting import killed_at_last, run, start

pytestmark = pytest.mark.root
LIMIT_S = 60

TALKS = """
from note import ATTEMPT, HERE, RANK, note, wait_for
import os, signal, sys, time
print("x" * 20000, flush=True)
note("ready")
if ATTEMPT == 0:
    while not os.path.exists(HERE + "/go"):
        time.sleep(0.01)
    print("y" * 20000, flush=True)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
print("z" * 20000, flush=True)
note("done")
"""


def test_frozen_from_the_start(tmp_path: Path) -> None:
    with frozen() as (disk, freeze):
        freeze()
        (tmp_path / "go").touch()
        ended = run(tmp_path, TALKS, env={"RESILIENT_RUN_DIR": f"{disk}/run"})
        assert ended.code == 0
        assert ended.seconds < LIMIT_S
        assert len(ended.noted("done")) == 2
        assert "no answer from the disk" in ended.err
        assert ended.out.count("z" * 20000) == 2
        elsewhere = list(tmp_path.glob("tmp/resilient-runs-*"))
        assert elsewhere, "the second candidate was not taken"


def test_frozen_under_way(tmp_path: Path) -> None:
    with frozen() as (disk, freeze):
        job = start(tmp_path, TALKS, env={"RESILIENT_RUN_DIR": f"{disk}/run"})
        with killed_at_last(job):
            job.noted("ready", 2)
            job.until(lambda: list(job.run_dir.glob("nodes/*/attempt-0/1/*.log")), "the logs")
            freeze()
            (tmp_path / "go").touch()
            job.noted("done", 2)
            ended = job.end(LIMIT_S, clean=False, explained=False)
        assert ended.code == 0
        assert set(ended.left) <= {"(rr-scribe) D", "(rr-scribe) S"}
        assert ended.out.count("z" * 20000) == 2
        assert str(disk) in ended.err


def test_full_from_the_start(tmp_path: Path) -> None:
    with full() as (disk, fill):
        fill()
        (tmp_path / "go").touch()
        ended = run(tmp_path, TALKS, env={"RESILIENT_RUN_DIR": f"{disk}/run"})
        assert ended.code == 0
        assert ended.seconds < LIMIT_S
        assert "No space left on device" in ended.err
        assert ended.out.count("z" * 20000) == 2


def test_full_under_way(tmp_path: Path) -> None:
    with full() as (disk, fill):
        job = start(tmp_path, TALKS, env={"RESILIENT_RUN_DIR": f"{disk}/run"})
        with killed_at_last(job):
            job.noted("ready", 2)
            job.until(lambda: list(job.run_dir.glob("nodes/*/attempt-0/1/*.log")), "the logs")
            fill()
            (tmp_path / "go").touch()
            ended = job.end(LIMIT_S, explained=False)
        assert ended.code == 0
        assert ended.out.count("z" * 20000) == 2
        assert "No space left on device" in ended.err


STUCK = """
from note import HERE, RANK, note, wait_for
import os, sys, time
if RANK == 0:
    note("ready")
    os.write(os.open(os.environ["DISK"] + "/file", os.O_WRONLY | os.O_CREAT), b"x")
wait_for("fail")
raise ValueError("the other one hangs")
"""


def test_a_worker_in_state_d_does_not_hold_the_run(tmp_path: Path) -> None:
    """T31: exit code 70, no restart, within the limit for processes that cannot be killed."""
    with frozen() as (disk, freeze):
        freeze()
        env = {"DISK": str(disk), "RESILIENT_UNKILLABLE_S": "2"}
        job = start(tmp_path, STUCK, "--max-restarts=3", env=env)
        with killed_at_last(job):
            pid = job.noted("ready")[0]["pid"]
            job.until(lambda: in_state_d(pid), "state D")
            with (tmp_path / "notes.jsonl").open("a") as notes:
                notes.write('{"kind": "fail", "rank": -1, "attempt": 0}\n')
            failed = time.monotonic()
            ended = job.end(LIMIT_S, clean=False)
            assert time.monotonic() - failed < 40
        assert ended.code == 70
        assert ended.attempts == 1
        assert str(pid) in ended.report
        assert "recycling" in ended.report
        assert ended.left == ["(python) D"], ended.left
        assert os.listdir(tmp_path / "tmp") == []
