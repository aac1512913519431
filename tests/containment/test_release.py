"""A rank that waits in a collective for one that never comes is let go, from outside."""

import os
import signal
import subprocess
import time

import pytest

from containment.surroundings import (
    as_nobody,
    environment,
    needs_root,
    open_folder,
    python,
    wait_until,
)
from resilient.act.release import release
from resilient.act.stop import Senses, Target, stop_workers
from resilient.sense.processes import catches, is_stopped
from resilient.sense.saving import inside_save
from resilient.sense.sockets import group_sockets

STORE = """
import sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""

RANK = """
import os, signal, sys, time
import torch
import torch.distributed as dist
rank, port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def handler(number, frame):
    open(folder + "/handled", "w").close()
    os._exit(9)
signal.signal(signal.SIGTERM, handler)
store = dist.PrefixStore(folder, dist.TCPStore("127.0.0.1", port))
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
dist.all_reduce(torch.ones(1))
open(f"{folder}/ready{rank}", "w").close()
if rank == 1:
    time.sleep(600)
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError:
    store.set("raised", "and the store still works")
    open(f"{folder}/raised", "w").close()
time.sleep(600)
"""


@pytest.fixture(scope="module")
def port():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    store = subprocess.Popen(python("-c", STORE), text=True, **pipes)
    yield int(store.stdout.readline())
    store.kill()
    store.communicate()


@pytest.fixture
def hanging(port):
    """Two ranks in a gloo group: the second is stopped, the first waits for it."""
    with open_folder() as folder:
        ranks = [
            subprocess.Popen(
                python("-c", RANK, str(rank), str(port), folder), start_new_session=True
            )
            for rank in range(2)
        ]
        try:
            wait_until(lambda: len(os.listdir(folder)) == 2, "both ranks", seconds=60)
            ranks[1].send_signal(signal.SIGSTOP)
            wait_until(lambda: is_stopped(ranks[1].pid), "stop")
            time.sleep(0.2)
            yield folder, *ranks
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()


def test_the_collective_raises_and_the_store_stays(hanging):
    folder, waiting, stopped = hanging
    sockets = group_sockets([waiting.pid, stopped.pid])
    assert len(sockets[waiting.pid]) == len(sockets[stopped.pid]) > 0
    assert not os.path.exists(f"{folder}/raised")
    began = time.monotonic()
    assert release(waiting.pid, sockets[waiting.pid]) == len(sockets[waiting.pid])
    wait_until(lambda: os.path.exists(f"{folder}/raised"), "the exception", seconds=5)
    assert time.monotonic() - began < 1


def test_its_handler_runs_when_it_is_stopped_after_a_fault(hanging):
    folder, waiting, stopped = hanging
    pidfd = os.pidfd_open(waiting.pid)
    ends = stop_workers(
        [Target(pid=waiting.pid, pidfd=pidfd)],
        why="fault",
        signum=signal.SIGTERM,
        stop_grace_s=60,
        fault_grace_s=20,
        senses=Senses(
            catches=catches,
            is_stopped=is_stopped,
            inside_save=inside_save,
            group_sockets=lambda: group_sockets([waiting.pid, stopped.pid]),
            release=release,
        ),
    )
    os.close(pidfd)
    end = ends[waiting.pid]
    assert (end.dead, end.signal, end.released) == (True, "SIGTERM", True)
    assert waiting.wait() == 9
    assert os.path.exists(f"{folder}/handled")


def test_nothing_that_cannot_be_released_raises():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert release(gone.pid, [3, 4]) == 0
    child = subprocess.Popen(["sleep", "600"])
    assert release(child.pid, [0, 1, 2, 12345]) == 0
    child.kill()
    child.wait()


PAIR = """
import os, socket, sys
from resilient.act.release import release
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far, _ = listener.accept()
child = os.fork()
if child == 0:
    listener.close(), near.close()
    far.recv(1)
    os._exit(5)
fd = far.fileno()
far.close()
released = release(child, [fd])
sys.exit(0 if released == 1 and os.waitpid(child, 0)[1] == 5 << 8 and near.recv(1) == b"" else 1)
"""


@pytest.mark.root
@needs_root
def test_an_ordinary_user_may_release_its_children():
    with open_folder() as folder:
        command = as_nobody(python("-c", PAIR), folder)
        subprocess.run(command, env=environment(), cwd="/", check=True, timeout=30)
