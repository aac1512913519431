"""Nodes come and go at random: the run goes on, agrees on everything, and ends as it should."""

import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from netlab.lab import Lab
from netlab.launching import LOOP, Nodes

pytestmark = pytest.mark.root
ENV = {
    "RESILIENT_INFRA_RESTARTS_PER_HOUR": "10000",
    "RESILIENT_STALLED_ATTEMPTS": "0",  # the script takes no optimizer's steps
    "RESILIENT_JOIN_DELAY_S": "2",
}
QUICK = "--rdzv-conf=last_call_timeout=1"
ISOLATED_S = 20.0  # in which a node that is cut off has ended, or will come back


class Churn:
    """What happens to the hosts but the first, which serves the store."""

    def __init__(self, job: Nodes, seed: int) -> None:
        self._job, self._lab, self._chance = job, job.lab, random.Random(seed)
        self._healing: dict[int, tuple[float, Callable[[int], float]]] = {}
        self.told: list[str] = []  # to leave
        self.began = time.monotonic()

    def go_on(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(self._chance.choice([0.1, 0.5, 1.0, 3.0, 6.0]))
            self._heal(time.monotonic())
            self._happen(self._chance.choice(self._lab.hosts[1:]).number)
        self._heal(float("inf"))

    def _happen(self, host: int) -> None:
        if host in self._healing:
            return
        one = self._job.launched.get(host)
        if one is None or one.end is not None:
            self._say("starts", host)
            self._job.start(host)
            return
        fault = self._chance.choice(["leave", "kill", "cut", "drop", "freeze", "nothing"])
        self._say(fault, host)
        if fault == "leave":
            one.signal(signal.SIGTERM)
        elif fault == "kill":
            self._lab.kill(host)
        elif fault != "nothing":
            getattr(self._lab, fault)(host)
            undo = self._lab.thaw if fault == "freeze" else self._lab.heal
            self._healing[host] = time.monotonic() + self._chance.choice([0.3, 1.5, 4, 9]), undo

    def _heal(self, now: float) -> None:
        for host, (when, undo) in list(self._healing.items()):
            if when <= now:
                self._say("is healed", host)
                undo(host)
                del self._healing[host]

    def _say(self, what: str, host: int) -> None:
        self.told.append(f"{time.monotonic() - self.began:7.2f} h{host} {what}")


def check(notes: list[dict[str, Any]]) -> int:
    """Everybody agreed on every attempt, and no two attempts trained at once. How many."""
    attempts: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for note in notes:
        attempts[note["attempt"]].append(note)
    before = 0.0
    for number in sorted(attempts):
        starts = [note for note in attempts[number] if note["kind"] == "start"]
        steps = [note["at"] for note in attempts[number] if note["kind"] == "step"]
        places = [(note["rank"], note["GROUP_RANK"]) for note in starts]
        assert len(places) == len(set(places)), f"attempt {number}: a rank twice, {starts}"
        for name in ("world", "MASTER_ADDR", "RESILIENT_ATTEMPT", "TORCHELASTIC_RESTART_COUNT"):
            assert len({note[name] for note in starts}) <= 1, f"attempt {number}: {name}, {starts}"
        assert all(before < at for at in steps), f"attempt {number} and one before both trained"
        before = max([before, *steps])
    return len(attempts)


@contextmanager
def telling(churn: Churn, job: Nodes) -> Iterator[None]:
    """Whoever reads of a failure wants to know what had happened."""
    try:
        yield
    except AssertionError as error:
        events = "\n".join(churn.told)
        raise AssertionError(f"{error}\n{job.told()}\n{events}") from error


def one_run(lab: Lab, folder: Path, seed: int, seconds: float) -> None:
    with Nodes(lab, folder, LOOP, QUICK, nnodes="1:4", env=ENV) as job:
        churn = Churn(job, seed)
        with telling(churn, job):
            job.start(0, 1)
            job.noted("step", 5)
            churn.go_on(seconds)
            healed = time.monotonic()
            job.noted("step", 20, host="h0", after=healed)
            job.finish()
            job.end(0, clean=True, seconds=60.0)
            for host, one in job.launched.items():
                job.until(lambda one=one: one.end, f"the end of h{host}", ISOLATED_S)
            assert job.launched[0].code == 0
            attempts = check(job.notes)
            for host in lab.hosts:
                job.until(lambda host=host: not host.processes, f"nothing left on {host.name}", 5)
    print(f"\nseed {seed}: {len(churn.told)} events, {attempts} attempts in {seconds:.0f} s")


@pytest.mark.timeout(240)
def test_some_churn(new_lab: Callable[[int], Lab], tmp_path: Path) -> None:
    one_run(new_lab(4), tmp_path / "job", seed=1, seconds=45.0)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_minutes_of_churn(new_lab: Callable[[int], Lab], tmp_path: Path) -> None:
    one_run(new_lab(4), tmp_path / "job", seed=2, seconds=600.0)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_nobody_healthy_is_dropped_under_full_load(
    new_lab: Callable[[int], Lab], tmp_path: Path
) -> None:
    """Half an hour in which every core has more to do than it can."""
    lab = new_lab(4)
    burn = "while True: pass"
    with Nodes(lab, tmp_path / "job", LOOP) as job:
        job.start()
        job.noted("step", 20)
        for number in range(2 * (os.cpu_count() or 1)):
            lab.hosts[number % 4].start(sys.executable, "-c", burn, name="burner")
        until = time.monotonic() + 1800.0
        while time.monotonic() < until:
            assert not any(one.end for one in job.launched.values()), job.told()
            assert len(job.noted("start")) == 4, job.told()
            time.sleep(5.0)
        job.finish()
        assert [one.code for one in job.end(clean=False)] == [0] * 4
    assert {note["attempt"] for note in job.notes} == {0}
