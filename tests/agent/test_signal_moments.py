"""A stop from outside that comes at a bad moment: it is obeyed, and nothing is left."""

import signal
import time
from pathlib import Path

import pytest

from agent.jobs import Job
from agent.starting import free_port, killed_at_last, start
from resilient.sense.processes import descendants

WAIT = """
from note import note
import time
TORCH
note("ready")
while True:
    time.sleep(0.2)
"""
SURVIVES = """
from note import ATTEMPT, RANK, note, wait_for
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: note("asked"))
note("ready")
if RANK == 1:
    wait_for("ready", 2)
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    time.sleep(0.2)
"""


def in_rendezvous(job: Job) -> None:
    """Wait until the agent is past its imports, and a little more."""

    def scribe() -> bool:
        return any(proc.comm == "rr-scribe" for proc in descendants(job.pid))

    job.until(scribe, "the agent's session")
    time.sleep(1.0)


def test_while_torch_is_imported(tmp_path: Path) -> None:
    """There is no agent yet that could take it in."""
    with killed_at_last(start(tmp_path, WAIT)) as job:
        assert job.agent
        job.signal(signal.SIGTERM)
        ended = job.end()
    assert ended.code == -signal.SIGTERM
    assert ended.seconds < 20


def test_while_standbys_start(tmp_path: Path) -> None:
    env = {"RESILIENT_STANDBY_DELAY_S": "0"}
    with killed_at_last(start(tmp_path, WAIT.replace("TORCH", "import torch"), env=env)) as job:
        job.until(lambda: job.recorded("standby.start"), "a standby")
        job.signal(signal.SIGTERM)
        ended = job.end()
    assert ended.code == 1
    assert ended.run.run.sentence == "Stopped by SIGTERM from outside."


def test_while_an_attempt_is_cleared_away(tmp_path: Path) -> None:
    """The survivor has its fault grace; no further attempt may start."""
    env = {"RESILIENT_FAULT_GRACE_S": "3", "RESILIENT_STOP_GRACE_S": "1"}
    with killed_at_last(start(tmp_path, SURVIVES, env=env)) as job:
        job.noted("asked")
        job.signal(signal.SIGTERM)
        ended = job.end()
    assert ended.code == 1
    assert ended.attempts == 1
    assert ended.run.run.sentence == "Stopped by SIGTERM from outside."


@pytest.mark.parametrize("rank", [0, 1])
def test_while_another_node_is_waited_for(tmp_path: Path, rank: int) -> None:
    """Static: node 0 waits in the store for the other's ranks, node 1 for the store."""
    flags = f"--nnodes=2 --node-rank={rank} --master-addr=127.0.0.1 --master-port={free_port()}"
    with killed_at_last(start(tmp_path, WAIT, rendezvous=flags)) as job:
        in_rendezvous(job)
        job.signal(signal.SIGTERM)
        ended = job.end(40)
    assert ended.code in (1, -signal.SIGTERM)


def test_while_c10d_waits_for_another_node(tmp_path: Path) -> None:
    flags = f"--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{free_port()}"
    with killed_at_last(start(tmp_path, WAIT, rendezvous=flags)) as job:
        in_rendezvous(job)
        job.signal(signal.SIGTERM)
        ended = job.end()
    assert ended.code in (1, -signal.SIGTERM)  # the latter is torchrun's
