"""The run directory's disk may hang or be full: the job does not notice. A worker's own may not."""

import os
import re
import time
from pathlib import Path

import pytest

from agent.disks import ext4, in_state_d, tmpfs
from agent.ended import Ended
from agent.jobs import Job
from agent.starting import killed_at_last, start

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


def went_on(ended: Ended) -> bool:
    """With a restart in between, and nothing missing on the console."""
    assert ended.seconds < LIMIT_S
    assert ended.code == 0
    assert len(ended.noted("done")) == 2
    return ended.out.count("z" * 20000) == 2


def told(ended: Ended) -> str:
    """What the person at the terminal reads, without the names of files."""
    return re.sub(r"\S*/\S*", "", " ".join(ended.err.split()))


def job_on(disk: Path, folder: Path) -> Job:
    return start(folder, TALKS, env={"RESILIENT_RUN_DIR": f"{disk}/run"})


def logs_there(job: Job) -> bool:
    return bool(list(job.run_dir.glob("nodes/*/attempt-0/1/*.log")))


def test_frozen_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with ext4() as disk:
        disk.freeze()
        with killed_at_last(job_on(disk.path, tmp_path)) as job:
            ended = job.end(clean=False)
            disk.thaw()
    assert went_on(ended)
    assert ended.survivors <= {"rr-scribe"}
    assert "no answer from the disk" in told(ended)


def test_frozen_under_way(tmp_path: Path) -> None:
    with ext4() as disk, killed_at_last(job_on(disk.path, tmp_path)) as job:
        job.noted("ready", 2)
        job.until(lambda: logs_there(job), "the logs")
        disk.freeze()
        (tmp_path / "go").touch()
        ended = job.end(clean=False, explained=False)
        disk.thaw()
    assert went_on(ended)
    assert ended.survivors <= {"rr-scribe"}
    assert re.search("disk|missing|lost:", told(ended))


def test_full_from_the_start(tmp_path: Path) -> None:
    """The records then go to the temporary directory."""
    (tmp_path / "go").touch()
    with tmpfs() as disk:
        disk.fill()
        with killed_at_last(job_on(disk.path, tmp_path)) as job:
            ended = job.end(clean=False)
    assert went_on(ended)
    assert not ended.left
    assert str(tmp_path / "tmp") in ended.report
    assert "No space left on device" in told(ended)


def test_full_under_way(tmp_path: Path) -> None:
    with tmpfs() as disk, killed_at_last(job_on(disk.path, tmp_path)) as job:
        job.noted("ready", 2)
        job.until(lambda: logs_there(job), "the logs")
        disk.fill()
        (tmp_path / "go").touch()
        ended = job.end(explained=False)
    assert went_on(ended)
    assert "No space left on device" in told(ended)


STUCK = """
from note import HERE, RANK, note, wait_for
import os
if RANK == 0:
    note("ready")
    os.open(os.environ["DISK"] + "/file", os.O_WRONLY | os.O_CREAT)
wait_for("fail")
raise ValueError("the other one hangs")
"""


def test_a_worker_in_state_d_does_not_hold_the_run(tmp_path: Path) -> None:
    """T31: exit code 70 and no restart, soon after RESILIENT_UNKILLABLE_S."""
    with ext4() as disk:
        disk.freeze()
        env = {"DISK": str(disk.path), "RESILIENT_UNKILLABLE_S": "2"}
        with killed_at_last(start(tmp_path, STUCK, "--max-restarts=3", env=env)) as job:
            pid = job.noted("ready")[0]["pid"]
            job.until(lambda: in_state_d(pid), "state D")
            with (tmp_path / "notes.jsonl").open("a") as notes:
                notes.write('{"kind": "fail"}\n')
            failed = time.monotonic()
            ended = job.end(LIMIT_S, clean=False)
            assert time.monotonic() - failed < 40
            disk.thaw()
    assert ended.code == 70
    assert ended.attempts == 1
    assert ended.incidents[0][:2] == ("user_error", 1)
    assert str(pid) in ended.report
    assert "recycling" in told(ended)
    assert ended.survivors <= {"python", "python3.11"}
    assert os.listdir(tmp_path / "tmp") == []
