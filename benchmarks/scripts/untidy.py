"""The job that `containment.py` runs: it leaves behind whatever a job can leave behind.

Each rank starts a daemon (forked twice, its own session, a clean environment, deaf to SIGTERM,
listening on a port), a pool of spawned processes as a DataLoader does, and shared memory that
is not unlinked. Then rank 1 fails, or both succeed, or both wait for what is done to them.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

DAEMON = """
import os, signal, socket, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", 0))
os.write(int(sys.argv[1]), b"%d" % server.getsockname()[1])
os.close(int(sys.argv[1]))
time.sleep(3600)
"""


def daemon() -> int:
    """Start one; returns the port that it listens on."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.set_inheritable(theirs, True)
            os.execve(sys.executable, [sys.executable, "-ISc", DAEMON, str(theirs)], {})
        os._exit(0)
    os.wait()
    os.close(theirs)
    return int(os.read(ours, 16))


def touch(name: str) -> None:
    """What a process of the pool does."""
    memory = SharedMemory(name)
    memory.buf[0] = 1
    memory.close()


def main() -> None:
    """Make the mess, note that it is made, and end as asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=Path, required=True, help="folder for a note of each rank")
    parser.add_argument("--mark", required=True, help="beginning of the shared memory's names")
    parser.add_argument("--then", choices=["succeed", "fail", "wait"], required=True)
    args = parser.parse_args()
    rank = int(os.environ["RANK"])
    port = daemon()
    memory = SharedMemory(f"{args.mark}-{rank}", create=True, size=4096)
    pool = multiprocessing.get_context("spawn").Pool(2)
    pool.map(touch, [memory.name] * 4)
    note = args.notes / str(rank)
    note.with_suffix(".new").write_text(json.dumps({"port": port}))
    note.with_suffix(".new").rename(note)
    while len(list(args.notes.glob("?"))) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)
    if args.then == "succeed":
        pool.terminate()
        memory.unlink()
        return
    if args.then == "fail" and rank == 1:
        raise ValueError("as asked")
    time.sleep(3600)


if __name__ == "__main__":
    main()
