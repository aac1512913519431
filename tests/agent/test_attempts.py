"""What changes from attempt to attempt, and what does not: numbers, ports, stores."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.ended import Ended
from agent.starting import Batch, free_port, run

# a different failure in each attempt, so that --max-restarts is what bounds them
FAIL = """
if ATTEMPT < LAST:
    if RANK == 1:
        wait_for("ready", 2 * ATTEMPT + 2)
        raise type("Failure" + "abcdefghijkl"[ATTEMPT], (Exception,), {})
    time.sleep(60)
"""
NUMBERS = """
from note import ATTEMPT, RANK, note, wait_for
import os, time
names = ("RESILIENT_ATTEMPT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
         "MASTER_ADDR", "MASTER_PORT", "RESILIENT_RUN_ID", "TORCHELASTIC_RUN_ID", "WORLD_SIZE")
note("ready", **{name: os.environ.get(name) for name in names})
"""
STORE = """
from note import ATTEMPT, RANK, note, wait_for
import os, time
from torch.distributed import TCPStore
port = os.environ["MASTER_PORT"]
store = TCPStore(os.environ["MASTER_ADDR"], int(port), is_master=False)
seen = store.check([f"rank {RANK}"])
store.set(f"rank {RANK}", "was here")
note("ready", seen=seen, port=port)
"""
GLOO = """
from note import ATTEMPT, RANK, note, wait_for
import os, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
note("ready", sum=one.item(), port=os.environ["MASTER_PORT"])
"""
C10D = "--rdzv-backend=c10d --rdzv-endpoint=localhost:0"
PRIVATE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def until(last: int, text: str) -> tuple[str, str]:
    """A script that fails in every attempt before `last`, and the flags that let it."""
    return text + FAIL.replace("LAST", str(last)), f"--max-restarts={last}"


@pytest.fixture(scope="module")
def batch(new_batch: Callable[[], Batch]) -> Batch:
    runs = new_batch()
    static = [f"--master-port={free_port()}" for _ in range(3)]
    program, flags = until(2, NUMBERS)
    runs.add("numbers", program, flags)
    program, flags = until(1, STORE)
    runs.add("standalone", program, flags)
    runs.add("c10d", program, flags, rendezvous=C10D)
    runs.add("static", program, flags, rendezvous=static[0])
    runs.add("program", program, flags + " --no-python")
    runs.add("program static", program, flags + " --no-python", rendezvous=static[1])
    program, flags = until(1, GLOO)
    runs.add("private", program, flags, env=PRIVATE)
    runs.add("private static", program, flags, env=PRIVATE, rendezvous=static[2])
    return runs


def values(ended: Ended, name: str) -> list[set[Any]]:
    """What all ranks noted under a name, attempt by attempt."""
    found: dict[int, set[Any]] = {}
    for line in ended.noted("ready"):
        found.setdefault(line["attempt"], set()).add(line[name])
    return [found[attempt] for attempt in sorted(found)]


def test_one_attempt_number(batch: Batch) -> None:
    """T22."""
    ended = batch["numbers"]
    assert ended.code == 0
    assert values(ended, "RESILIENT_ATTEMPT") == [{"0"}, {"1"}, {"2"}]
    assert values(ended, "TORCHELASTIC_RESTART_COUNT") == [{"0"}, {"1"}, {"2"}]
    assert values(ended, "TORCHELASTIC_MAX_RESTARTS") == [{"2"}] * 3
    assert values(ended, "WORLD_SIZE") == [{"2"}] * 3


def test_one_run_id(batch: Batch) -> None:
    ended = batch["numbers"]
    assert values(ended, "RESILIENT_RUN_ID") == [{ended.run.run.run_id}] * 3
    ids = values(ended, "TORCHELASTIC_RUN_ID")
    assert ids == [ids[0]] * 3


@pytest.mark.parametrize("name", ["standalone", "c10d", "static", "program", "program static"])
def test_each_attempt_has_an_empty_store(batch: Batch, name: str) -> None:
    ended = batch[name]
    assert ended.code == 0
    assert values(ended, "seen") == [{False}, {False}]


@pytest.mark.parametrize("name", ["static", "program static", "private static"])
def test_a_port_that_the_user_named_stays(batch: Batch, name: str) -> None:
    ports = values(batch[name], "port")
    assert len(ports[0]) == 1
    assert ports == [ports[0]] * 2


@pytest.mark.parametrize("name", ["standalone", "c10d", "program"])
def test_a_port_that_nobody_named_changes(batch: Batch, name: str) -> None:
    ports = values(batch[name], "port")
    assert [len(port) for port in ports] == [1, 1]
    assert ports[0] != ports[1]


@pytest.mark.parametrize("name", ["private", "private static"])
def test_a_store_of_the_workers_own(batch: Batch, name: str) -> None:
    """TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: rank 0 makes the server."""
    ended = batch[name]
    assert ended.code == 0
    assert values(ended, "sum") == [{2.0}, {2.0}]


@pytest.mark.slow
def test_ten_restarts_initialise_each_time(tmp_path: Path) -> None:
    program, flags = until(10, GLOO)
    ended = run(tmp_path, program, flags, env={"RESILIENT_WARM_START": "off"})
    assert ended.code == 0
    assert values(ended, "sum") == [{2.0}] * 11
