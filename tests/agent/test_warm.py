"""Restarts from waiting processes: where they may be, and that a script cannot tell."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.ended import Ended, lines
from agent.jobs import Job
from agent.starting import killed_at_last, start

HEAD = """
from note import ATTEMPT, RANK, note, wait_for
import os, sys, time
note("line 1", torch="torch" in sys.modules, argv=sys.argv, flags=str(sys.flags),
     hook=[k for k in os.environ if "HOOK" in k], path=os.environ.get("PYTHONPATH"),
     attempt_number=os.environ["RESILIENT_ATTEMPT"], main=sys.modules["__main__"].__file__,
     mine=getattr(sys, "mine", None))
"""
TAIL = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print(f"trains: {RANK} of {dist.get_world_size()} in {ATTEMPT}", flush=True)
note("trains", seed=torch.initial_seed(), threads=torch.get_num_threads(),
     port=os.environ["MASTER_PORT"], environ=sorted(os.environ))
while ATTEMPT == 0:
    time.sleep(1)
dist.destroy_process_group()
"""
DDP = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def step():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
""" + TAIL.replace('dist.init_process_group("gloo")\ndist.all_reduce(torch.ones(1))', "step()")
SITE = "import os, sys\nsys.mine = getattr(sys, 'mine', 0) + 1\n"
CASES = {
    "usual": HEAD + DDP,
    "own sitecustomize": HEAD + TAIL,
    "same environment": HEAD + "os.environ['OMP_NUM_THREADS'] = '2'\n" + TAIL,
    "other environment": HEAD + "os.environ['OMP_NUM_THREADS'] = str(1 + ATTEMPT)\n" + TAIL,
    "off": HEAD + TAIL,
    "isolated": HEAD + TAIL,
}
WARM = ["usual", "own sitecustomize", "same environment"]
COLD = ["off", "isolated"]


def environment(name: str, folder: Path) -> dict[str, str]:
    env = {"RESILIENT_STANDBY_DELAY_S": "1.5"}
    if name == "own sitecustomize":
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(SITE)
        env["PYTHONPATH"] = str(folder / "site")
    elif name == "off":
        env["RESILIENT_WARM_START"] = "off"
    elif name == "isolated":
        wrapper = folder / "python"
        wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -E "$@"\n')
        wrapper.chmod(0o755)
        env["PYTHON_EXEC"] = str(wrapper)
    return env


def recorded(job: Job, kind: str) -> list[dict[str, Any]]:
    """Events of a kind that are in the run directory by now."""
    files = job.run_dir.glob("nodes/*/events.jsonl")
    return [line for file in files for line in lines(file) if line["kind"] == kind]


def ready(job: Job, count: int = 2) -> None:
    job.until(lambda: len(recorded(job, "standby.ready")) >= count, "standbys")


def one(folder: Path, name: str) -> Ended:
    """A run whose rank 1 is killed once it trains and, where there may be any, standbys wait."""
    with killed_at_last(start(folder, CASES[name], env=environment(name, folder))) as job:
        pid = job.noted("trains", 2)[0]["pid"]
        if name in COLD:
            job.until(lambda: recorded(job, "standby.rule"), "a verdict")
        else:
            ready(job)
        os.kill(pid, signal.SIGKILL)
        return job.end()


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, several: Callable[..., Callable[[str], Ended]]
) -> Callable[[str], Ended]:
    return several(lambda name: one(tmp_path_factory.mktemp("warm"), name), CASES)


def starts(ended: Ended, attempt: int) -> dict[int, dict[str, Any]]:
    """What was recorded of the workers' starts, by rank."""
    found = [event for event in ended.events("worker.start") if event["attempt"] == attempt]
    return {event["rank"]: event for event in found}


@pytest.mark.parametrize("name", CASES)
def test_comes_back(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    assert ended.code == 0
    assert [incident[0] for incident in ended.incidents] == ["worker_killed"]
    assert len(ended.noted("trains", attempt=1)) == 2
    assert all(line["attempt_number"] == "1" for line in ended.noted("line 1", attempt=1))
    for rank in (0, 1):
        assert f"trains: {rank} of 2 in 1" in ended.out
        assert f"trains: {rank} of 2 in 1" in ended.logs[f"attempt-1/{rank}/stdout.log"]


@pytest.mark.parametrize("name", WARM)
def test_warm(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    assert [event["warm"] for event in starts(ended, 0).values()] == [False, False]
    assert [event["warm"] for event in starts(ended, 1).values()] == [True, True]
    incident = ended.run.incidents[0]
    assert incident.warm_ranks == (0, 1)
    assert "came back warm" in ended.report


def test_the_phases_of_an_incident(runs: Callable[[str], Ended]) -> None:
    phases = runs("usual").run.incidents[0].phases
    seconds = msgspec.structs.astuple(phases)
    assert None not in seconds, phases
    assert list(seconds) == sorted(seconds)


@pytest.mark.parametrize("name", WARM)
def test_the_script_sees_no_difference(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    for rank in (0, 1):
        cold, warm = (ended.noted("line 1", rank=rank, attempt=n)[0] for n in (0, 1))
        for what in ("torch", "argv", "flags", "hook", "path", "main", "mine"):
            assert warm[what] == cold[what], what
        assert not warm["torch"]
        assert not warm["hook"]
        cold, warm = (ended.noted("trains", rank=rank, attempt=n)[0] for n in (0, 1))
        assert warm["environ"] == cold["environ"]
        assert warm["threads"] == cold["threads"]
    assert len({line["seed"] for line in ended.noted("trains")}) == 4
    assert len(ended.noted("line 1")) == 4


def test_a_sitecustomize_of_the_users_own_runs_once(runs: Callable[[str], Ended]) -> None:
    ended = runs("own sitecustomize")
    assert [line["mine"] for line in ended.noted("line 1")] == [1] * 4


def test_the_environment_before_torch_is_replayed(runs: Callable[[str], Ended]) -> None:
    assert [line["threads"] for line in runs("same environment").noted("trains")] == [2] * 4


def test_another_environment_starts_over(runs: Callable[[str], Ended]) -> None:
    """The lines before `import torch` then run twice; and no more standbys are made."""
    ended = runs("other environment")
    assert [line["threads"] for line in ended.noted("trains", attempt=1)] == [2, 2]
    assert len(ended.noted("line 1", attempt=1)) == 4
    assert ended.events("worker.cold")
    assert ended.run.incidents[0].warm_ranks == ()
    assert "OMP_NUM_THREADS" in ended.run.incidents[0].cold_why


@pytest.mark.parametrize("name", COLD)
def test_cold_where_it_has_to_be(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    assert not ended.events("standby.start")
    assert len(ended.noted("line 1")) == 4
    assert all(event["why_cold"] for event in starts(ended, 1).values())


def test_why_it_is_cold_is_said(runs: Callable[[str], Ended]) -> None:
    why = {name: starts(runs(name), 1)[0]["why_cold"] for name in COLD}
    assert "RESILIENT_WARM_START" in why["off"]
    assert "did not report" in why["isolated"]
