"""Whatever of a run is killed with SIGKILL, nothing of it is left."""

import os
import signal

import pytest

from containment.surroundings import (
    NOBODY,
    as_nobody,
    frozen_disk,
    needs_root,
    nothing_left,
    running,
    wait_until,
)

USERS = ["self", pytest.param("nobody", marks=[pytest.mark.root, needs_root])]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("kind", ["plain", "daemon", "clean", "storm"])
@pytest.mark.parametrize(("victim", "code"), [("keeper", -9), ("agent", -9), ("worker", 1)])
def test_nobody_outlives_the_run(job, victim, code, kind, user):
    command = job.command("nest", kind)
    keeper = job.start(command if user == "self" else as_nobody(command, job.folder))
    pids = {"agent": job.ready(), "keeper": keeper.pid, "worker": int(job.text("worker"))}
    wait_until(lambda: job.exists(kind), kind)
    assert os.stat(f"/proc/{keeper.pid}").st_uid == (os.geteuid() if user == "self" else NOBODY)
    assert job.private_dirs() != []

    os.kill(pids[victim], signal.SIGKILL)

    assert keeper.wait(30) == code
    if victim == "keeper":  # the agent cleans up after it
        wait_until(lambda: nothing_left(job.folder), "the end of all")
        wait_until(lambda: job.private_dirs() == [], "removal of the private directory")
    assert nothing_left(job.folder)
    assert job.private_dirs() == []


def test_all_kinds_when_the_agent_leaves_by_itself(job):
    """It returns without having looked after anything."""
    kinds = ("plain", "daemon", "clean", "storm", "stubborn", "stopped")
    keeper = job.start(job.command("nest", *kinds))
    agent = job.ready()
    wait_until(lambda: all(map(job.exists, kinds)), "all kinds")
    os.kill(agent, signal.SIGINT)  # KeyboardInterrupt
    assert keeper.wait(30) == -signal.SIGINT
    assert nothing_left(job.folder)


def test_the_scribe_may_finish_writing(job):
    assert job.start(job.command("scribe", "finish")).wait(30) == 6
    assert job.exists("written")
    assert nothing_left(job.folder)


def test_a_scribe_that_hangs_does_not_hang_the_keeper(job):
    assert job.start(job.command("scribe", "hang")).wait(30) == 6
    assert not job.exists("written")
    assert nothing_left(job.folder)


@pytest.mark.root
@needs_root
def test_state_d_does_not_hang_the_keeper(job):
    with frozen_disk() as (disk, thaw):
        assert job.start(job.command("hang", f"{disk}/file")).wait(30) == 4
        assert running(job.folder) == [int(job.text("child"))]
        assert job.private_dirs() == []
        thaw()
        wait_until(lambda: nothing_left(job.folder), "the end of the hanging one")


def test_processes_that_were_there_before_are_none_of_our_business(job):
    script = f'(exec -a "stranger {job.folder}" sleep 600) & exec "$@"'
    keeper = job.start(["bash", "-c", script, "bash", *job.command("leave", "0")])
    assert keeper.wait(30) == 0
    assert len(running("stranger " + job.folder)) == 1
