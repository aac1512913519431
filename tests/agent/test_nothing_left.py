"""However a run ends, nothing of it is left: processes, shared memory, files, sockets."""

import os
import signal
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from agent.ended import Ended
from agent.jobs import Job
from agent.starting import killed_at_last, start

# A daemon with a clean environment that is deaf to SIGTERM and listens on a port, a pool of
# spawned processes, and shared memory that nobody unlinks; then what the argument says.
SCRIPT = '''
from note import HERE, RANK, note, wait_for
import multiprocessing, os, sys, time
from multiprocessing.shared_memory import SharedMemory

DAEMON = """
import os, signal, socket, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", 0))
os.write(int(sys.argv[1]), str(server.getsockname()[1]).encode())
os.close(int(sys.argv[1]))
time.sleep(600)
"""


def daemon():
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.set_inheritable(theirs, True)
            command = [sys.executable, "-I", "-S", "-c", DAEMON, str(theirs)]
            os.execve(command[0], command, {})
        os._exit(0)
    os.wait()
    os.close(theirs)
    note("daemon", port=int(os.read(ours, 16)))


def load(name):
    memory = SharedMemory(name)
    memory.buf[0] = 1
    memory.close()
    return os.getpid()


if __name__ == "__main__":
    daemon()
    end, mark = sys.argv[1:]
    memory = SharedMemory(f"{mark}-{RANK}", create=True, size=4096)
    pool = multiprocessing.get_context("spawn").Pool(2)
    pool.map(load, [memory.name] * 4)
    note("ready")
    wait_for("ready", 2)
    if end == "success":
        pool.terminate()
        memory.unlink()
        sys.exit(0)
    if end == "failure" and RANK == 1:
        raise ValueError("as asked")
    while True:
        time.sleep(1)
'''
ENDS = ["success", "failure", "SIGTERM", "SIGKILL of agent", "SIGKILL of keeper"]
EACH = 2


def one(folder: Path, end: str) -> tuple[Ended, list[str]]:
    """One run; and what is left in shared memory and of sockets."""
    mark = f"test-{uuid.uuid4().hex}"
    job = start(folder, SCRIPT, args=[end, mark], grace_s=20)
    with killed_at_last(job):
        job.noted("ready", 2)
        act(job, end)
        ended = job.end(clean=False)
    left = [name for name in os.listdir("/dev/shm") if name.startswith(mark)]
    for line in ended.noted("daemon"):
        with suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", line["port"]), timeout=5).close()
            left.append(f"port {line['port']}")
    for name in os.listdir("/dev/shm"):
        if name.startswith(mark):
            Path("/dev/shm", name).unlink()
    return ended, left


def act(job: Job, end: str) -> None:
    if end == "SIGTERM":
        job.signal(signal.SIGTERM)
    elif end == "SIGKILL of agent":
        os.kill(job.agent, signal.SIGKILL)
    elif end == "SIGKILL of keeper":
        job.signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[tuple[str, int], Future[tuple[Ended, list[str]]]]]:
    folder = tmp_path_factory.mktemp("left")
    with ThreadPoolExecutor(2) as pool:
        cases = [(end, number) for end in ENDS for number in range(EACH)]
        yield {
            (end, number): pool.submit(one, folder / f"{end}-{number}", end)
            for end, number in cases
        }


@pytest.mark.parametrize("number", range(EACH))
@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left(
    runs: dict[tuple[str, int], Future[tuple[Ended, list[str]]]], end: str, number: int
) -> None:
    ended, left = runs[end, number].result()
    codes = {"success": 0, "SIGKILL of agent": -9, "SIGKILL of keeper": -9}
    assert ended.code == codes.get(end, 1), ended.err
    assert not ended.left
    assert not ended.temp
    assert not left
    if end != "SIGKILL of keeper":  # then it takes a moment: the agent stops its workers
        assert ended.settled < 1.0
