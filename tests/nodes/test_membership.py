"""Nodes that leave, join, and wait: none of it ends the job."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from netlab.lab import Lab
from netlab.launching import LOOP, Nodes

pytestmark = pytest.mark.root
QUICK = "--rdzv-conf=last_call_timeout=1"


def both_train(job: Nodes, world: int = 2, **more: object) -> None:
    """Wait until as many nodes have taken some steps together."""
    job.noted("step", 5 * world, world=world, **more)


def test_an_agent_that_leaves_removes_only_itself(lab: Lab, tmp_path: Path) -> None:
    """T18."""
    with Nodes(lab, tmp_path / "job", LOOP, nnodes="1:2") as job:
        job.start()
        both_train(job)
        told = time.monotonic()
        job.launched[1].signal(signal.SIGTERM)
        again = job.noted("step", host="h0", world=1, after=told, seconds=30)[0]
        print(f"\nSIGTERM to h1's agent -> h0 trains alone: {again['at'] - told:.2f} s")
        left = job.end(1)[0]
        job.noted("step", 50, host="h0", world=1, after=told)  # and goes on doing so
        job.finish()
        stayed = job.end(0)[0]
    assert "got signal: 15" in left.err or "SIGTERM" in left.err
    assert left.code != 0
    assert stayed.code == 0
    assert again["attempt"] == 1
    assert not lab.hosts[1].processes


def test_a_surplus_node_waits(new_lab: Callable[[int], Lab], tmp_path: Path) -> None:
    """It disturbs nobody, and ends well with the job."""
    with Nodes(new_lab(3), tmp_path / "job", LOOP, nnodes="2") as job:
        job.start(0, 1)
        both_train(job)
        job.start(2)
        time.sleep(8.0)  # its start, and some time of waiting
        assert job.launched[2].end is None, job.told()
        job.finish()
        ended = job.end()
    assert [one.code for one in ended] == [0, 0, 0], job.told()
    assert {note["host"] for note in job.noted("start")} == {"h0", "h1"}
    assert len(job.noted("start")) == 2


def test_a_surplus_node_takes_the_place_of_a_lost_one(
    new_lab: Callable[[int], Lab], tmp_path: Path
) -> None:
    with Nodes(new_lab(3), tmp_path / "job", LOOP, nnodes="2") as job:
        job.start(0, 1)
        both_train(job)
        job.start(2)
        time.sleep(5.0)  # until it waits
        at = job.lab.kill(1)
        again = job.noted("step", host="h2", world=2, after=at, seconds=30)[0]
        print(f"\nkill of h1 -> h2 trains in its place: {again['at'] - at:.2f} s")
        assert again["attempt"] == 1
        job.finish()
        ended = job.end(0, 2)
    assert [one.code for one in ended] == [0, 0], job.told()


def test_a_node_that_joins_is_taken_in(lab: Lab, tmp_path: Path) -> None:
    with Nodes(lab, tmp_path / "job", LOOP, QUICK, nnodes="1:2") as job:
        job.start(0)
        both_train(job, world=1)
        came = time.monotonic()
        job.start(1)
        both_train(job, world=2)
        print(f"\nh1 started -> both train: {job.noted('step', world=2)[0]['at'] - came:.2f} s")
        job.finish()
        ended = job.end()
    assert [one.code for one in ended] == [0, 0], job.told()
    starts = {(note["host"], note["attempt"], note["world"]) for note in job.noted("start")}
    assert starts == {("h0", 0, 1), ("h0", 1, 2), ("h1", 1, 2)}
