"""Waiting processes that are lost, or are there when everything ends."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.ended import Ended
from agent.jobs import Job
from agent.starting import killed_at_last, start
from agent.warm import ready, starts

SCRIPT = """
from note import ATTEMPT, RANK, note
import torch, time
note("start")
if ATTEMPT == 0:
    time.sleep(600)
"""


def begin(folder: Path) -> Job:
    return start(folder, SCRIPT, env={"RESILIENT_STANDBY_DELAY_S": "0"})


def kill_rank_1(job: Job) -> None:
    os.kill(job.noted("start", rank=1)[0]["pid"], signal.SIGKILL)


def lose_one(folder: Path) -> Ended:
    """It is replaced once."""
    with killed_at_last(begin(folder)) as job:
        ready(job)
        os.kill(job.recorded("standby.start")[0]["data"]["pid"], signal.SIGKILL)
        ready(job, 3)
        kill_rank_1(job)
        return job.end()


def lose_all(folder: Path) -> Ended:
    """Lost at the very moment when they are needed."""
    with killed_at_last(begin(folder)) as job:
        ready(job)
        for event in job.recorded("standby.start"):
            os.kill(event["data"]["pid"], signal.SIGKILL)
        kill_rank_1(job)
        return job.end()


def need_early(folder: Path) -> Ended:
    """They are needed while they still import torch."""
    with killed_at_last(begin(folder)) as job:
        job.until(lambda: job.recorded("standby.start"), "a standby")
        kill_rank_1(job)
        return job.end()


def stop(folder: Path) -> Ended:
    with killed_at_last(begin(folder)) as job:
        ready(job)
        job.signal(signal.SIGTERM)
        return job.end()


def lose_agent(folder: Path) -> Ended:
    with killed_at_last(begin(folder)) as job:
        ready(job)
        os.kill(job.agent, signal.SIGKILL)
        return job.end()


def freeze(folder: Path) -> Ended:
    """A standby that is stopped cannot be woken: the restart must not wait for it for ever."""
    with killed_at_last(begin(folder)) as job:
        ready(job)
        os.kill(job.recorded("standby.start")[1]["data"]["pid"], signal.SIGSTOP)
        kill_rank_1(job)
        return job.end()


ENDS = {f.__name__: f for f in (lose_one, lose_all, need_early, stop, lose_agent, freeze)}


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, several: Callable[..., Callable[[str], Ended]]
) -> Callable[[str], Ended]:
    folder = tmp_path_factory.mktemp("standbys")
    return several(lambda name: ENDS[name](folder / name), ENDS)


def test_one_that_dies_is_replaced(runs: Callable[[str], Ended]) -> None:
    ended = runs("lose_one")
    assert ended.code == 0
    assert sum(event["attempt"] == 0 for event in ended.events("standby.start")) == 3
    assert [event["warm"] for event in starts(ended, 1).values()] == [True, True]
    assert len(ended.noted("start", attempt=1)) == 2


@pytest.mark.parametrize("name", ["lose_all", "need_early"])
def test_it_comes_back_without_all_of_them(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    assert ended.code == 0
    assert len(ended.noted("start", attempt=1)) == 2


@pytest.mark.parametrize(("name", "code"), [("stop", 1), ("lose_agent", -9)])
def test_they_end_with_the_run(runs: Callable[[str], Ended], name: str, code: int) -> None:
    """That nothing is left was checked at its end."""
    assert runs(name).code == code


def test_one_that_is_stopped(runs: Callable[[str], Ended]) -> None:
    """It counts as a rank that was stopped, or is not used in the first place."""
    ended = runs("freeze")
    assert ended.code == 0
    last = ended.attempts - 1
    assert {line["rank"] for line in ended.noted("start", attempt=last)} == {0, 1}
