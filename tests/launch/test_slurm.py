"""launch/slurm.sbatch really run, on two nodes that are both this machine.

srun and scontrol are stand-ins (srun.py, batch.py): no Slurm was here to run it under.
"""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from launch.batch import Batch

TRAIN = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
said = f"rank {dist.get_rank()} node {os.environ['GROUP_RANK']} {sys.argv[1:]} {total.item()}"
os.write(1, f"{said}\\n".encode())  # in one piece
dist.destroy_process_group()
"""
MISTAKE = "import no_such_module_anywhere"
# Saves and ends at the notice.
NOTICED = """
import signal, sys, time, torch.distributed as dist
dist.init_process_group("gloo")

def save(number, frame):
    open(f"saved-{dist.get_rank()}", "w").close()
    sys.exit(0)

signal.signal(signal.SIGUSR1, save)
dist.barrier()
open(f"ready-{dist.get_rank()}", "w").close()
time.sleep(10)
"""


def test_two_nodes_train_together(tmp_path: Path) -> None:
    batch = Batch(tmp_path, TRAIN)
    code, out = batch.run("--lr", "3e-4")
    assert code == 0
    for rank in range(2):
        assert f"rank {rank} node {rank} ['--lr', '3e-4'] 3.0" in out
    assert not batch.requeued
    records = list((tmp_path / "resilient-runs").glob("slurm-*-0/run.json"))
    assert len(records) == 1


def test_the_nodes_share_a_key_that_nobody_sees(tmp_path: Path) -> None:
    batch = Batch(tmp_path)
    batch.pretend("0 0", 0)
    batch.run()
    first, second = batch.tasks()
    key = first["env"]["RESILIENT_RUN_KEY"]
    assert re.fullmatch(r"[0-9a-f]{64}", key)
    assert second["env"]["RESILIENT_RUN_KEY"] == key
    assert not any(key in word for word in first["argv"] + second["argv"])
    (again := tmp_path / "again").mkdir()
    other = Batch(again)
    other.pretend("0 0", 0)
    other.run()
    assert other.tasks()[0]["env"]["RESILIENT_RUN_KEY"] != key


def test_a_mistake_is_not_queued_again(tmp_path: Path) -> None:
    """78, by the real resilient-run on both nodes."""
    batch = Batch(tmp_path, MISTAKE)
    code, out = batch.run()
    assert code == 78
    assert "not queued again" in out
    assert not batch.requeued


def test_a_notice_of_preemption_saves_and_queues_again(tmp_path: Path) -> None:
    """75, by the real resilient-run: SIGUSR1 reaches each node, as by --signal=USR1@180."""
    batch = Batch(tmp_path, NOTICED)
    process = batch.start()
    end = time.monotonic() + 40
    while len(list(tmp_path.glob("ready-*"))) < 2 and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    if process.poll() is None:
        os.kill(int((batch.stand_in / "srun.pid").read_text()), signal.SIGUSR1)
    code, _ = batch.end(process)
    assert sorted(path.name for path in tmp_path.glob("saved-*")) == ["saved-0", "saved-1"]
    assert code == 75
    assert batch.requeued == [batch.env["SLURM_JOB_ID"]]


@pytest.mark.parametrize(
    ("codes", "recorded", "end", "again"),
    [
        ("0 0", 0, 0, False),
        ("75 75", 75, 75, True),
        ("78 78", 78, 78, False),
        ("1 1", 1, 1, False),
        ("69 69", 69, 69, True),
        ("70 70", 70, 70, True),
        ("0 70", 0, 0, False),  # it went on without the node that needs recycling
        ("1 70", 1, 1, False),
        ("137 75", 75, 75, True),  # srun's code would be that of the lost node
        ("137 137", None, 137, False),  # nobody was left to write how it ended
    ],
)
def test_what_is_queued_again(
    tmp_path: Path, codes: str, recorded: int | None, end: int, again: bool
) -> None:
    batch = Batch(tmp_path)
    batch.pretend(codes, recorded)
    code, _ = batch.run()
    assert code == end
    assert batch.requeued == [batch.env["SLURM_JOB_ID"]] * again


def test_not_for_ever(tmp_path: Path) -> None:
    batch = Batch(tmp_path)
    batch.pretend("75 75", 75)
    batch.env |= {"SLURM_RESTART_COUNT": "3", "MAX_REQUEUES": "3"}
    code, out = batch.run()
    assert code == 75
    assert "3 times already" in out
    assert not batch.requeued
