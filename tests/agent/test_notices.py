"""SIGUSR1 and SIGUSR2 to the launcher: passed on to who catches them, or a notice of preemption."""

import signal
from pathlib import Path

import pytest

from agent.ended import Ended
from agent.starting import killed_at_last, start

SAVES = """
from note import RANK, note
import os, signal, sys, time

told = []
if CATCHES:
    signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
if os.fork() == 0:  # a child that would die of it
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    note("child")
    time.sleep(60)
note("ready")
while not told:
    time.sleep(0.05)
time.sleep(0.3)
note("saved", times=len(told))
if not GOES_ON:
    sys.exit(0)
"""


def run(folder: Path, *, catches: bool, goes_on: bool = False, notice: bool = True) -> Ended:
    text = SAVES.replace("CATCHES", str(catches)).replace("GOES_ON", str(goes_on))
    env = {"RESILIENT_PREEMPTION_SIGNAL": "SIGUSR1"} if notice else {}
    with killed_at_last(start(folder, text, env=env)) as job:
        job.noted("child", 2)
        job.noted("ready", 2)
        job.signal(signal.SIGUSR1)
        return job.end()


def test_it_reaches_once_whoever_catches_it(tmp_path: Path) -> None:
    ended = run(tmp_path, catches=True, goes_on=True, notice=False)
    assert ended.code == 0
    assert [note["times"] for note in ended.noted("saved")] == [1, 1]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_notice_lets_the_workers_save(tmp_path: Path, goes_on: bool) -> None:
    ended = run(tmp_path, catches=True, goes_on=goes_on)
    assert ended.code == 75
    assert [note["times"] for note in ended.noted("saved")] == [1, 1]
    assert ended.incidents == [("preempted", 0, "stop")]
    assert "takes node" in ended.report


def test_a_notice_that_nobody_hears(tmp_path: Path) -> None:
    ended = run(tmp_path, catches=False)
    assert ended.code == 75
    assert not ended.noted("saved")
