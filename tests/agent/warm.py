"""Scripts and runs for the tests of warm restarts."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from agent.ended import Ended
from agent.jobs import Job
from agent.starting import killed_at_last, start

HEAD = """
from note import ATTEMPT, RANK, note, wait_for
import os, sys, time
note("line 1", torch="torch" in sys.modules, argv=sys.argv, flags=str(sys.flags),
     hook=[k for k in os.environ if "T_HOOK" in k], path=os.environ.get("PYTHONPATH"),
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
    folder.mkdir()
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


def ready(job: Job, count: int = 2) -> None:
    job.until(lambda: len(job.recorded("standby.ready")) >= count, "standbys")


def one(folder: Path, name: str) -> Ended:
    """A run whose rank 1 is killed once it trains and, where there may be any, standbys wait."""
    with killed_at_last(start(folder, CASES[name], env=environment(name, folder))) as job:
        pid = job.noted("trains", 2)[0]["pid"]
        if name in COLD:
            job.until(lambda: job.recorded("standby.rule"), "a verdict")
        else:
            ready(job)
        os.kill(pid, signal.SIGKILL)
        return job.end()


def starts(ended: Ended, attempt: int) -> dict[int, dict[str, Any]]:
    """What was recorded of the workers' starts, by rank."""
    found = [event for event in ended.events("worker.start") if event["attempt"] == attempt]
    return {event["rank"]: event for event in found}
