"""Ways to start jobs: from the text of a script, one at a time or several at once.

Beside a script lies a module `note`, by which it leaves notes (JSON lines, one whole write
each) for the test to wait for and to check, and by which ranks can wait for each other.
"""

import contextlib
import shlex
import socket
import sys
import textwrap
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agent.ended import Ended
from agent.jobs import LIMIT_S, Job

BIN = Path(sys.executable).parent
RESILIENT, TORCHRUN = "resilient-run", "torchrun"
AT_ONCE = 2

_NOTE = '''
import json, os, time

RANK = int(os.environ.get("RANK", -1))
ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", -1))
HERE = os.path.dirname(os.path.abspath(__file__))


def note(kind, **more):
    line = {"kind": kind, "rank": RANK, "attempt": ATTEMPT, "pid": os.getpid(),
            "at": time.monotonic(), **more}
    fd = os.open(os.path.join(HERE, "notes.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(fd, json.dumps(line).encode() + b"\\n")
    os.close(fd)


def wait_for(kind, count=1, seconds=60):
    """Until so many notes of a kind are there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with open(os.path.join(HERE, "notes.jsonl")) as file:
                if sum(json.loads(line)["kind"] == kind for line in file) >= count:
                    return
        except (OSError, ValueError):
            pass
        time.sleep(0.01)
    raise SystemExit(f"waited in vain for {kind}")
'''


def write(folder: Path, text: str, name: str = "script.py") -> Path:
    """Write a script and the module `note` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "note.py").write_text(_NOTE)
    path = folder / name
    path.write_text(f"#!{sys.executable} -u\n{textwrap.dedent(text)}")
    path.chmod(0o755)  # for --no-python
    return path


def start(
    folder: Path,
    text: str,
    flags: str = "",
    *,
    nproc: int = 2,
    launcher: str = RESILIENT,
    env: dict[str, str] | None = None,
    args: Sequence[object] = (),
    rendezvous: str = "--standalone",
    **job: Any,
) -> Job:
    """A launcher whose ranks run the script `text`. `flags` are written as in a shell."""
    path = write(folder, text)
    words = [*shlex.split(rendezvous), f"--nproc-per-node={nproc}", *shlex.split(flags)]
    return Job(folder, [BIN / launcher, *words, path, *args], env, **job)


def run(
    folder: Path,
    text: str,
    flags: str = "",
    *,
    clean: bool = True,
    explained: bool = True,
    **more: Any,
) -> Ended:
    """Start and wait. `clean` and `explained`: as for `Job.end`."""
    with killed_at_last(start(folder, text, flags, **more)) as job:
        return job.end(LIMIT_S, clean=clean, explained=explained)


@contextlib.contextmanager
def killed_at_last(job: Job) -> Iterator[Job]:
    """Have a job killed at the end of a test, however it goes."""
    try:
        yield job
    finally:
        job.abort()


class Batch:
    """Independent runs, a few at a time in the background; ask for them by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._futures: dict[str, Future[Ended]] = {}

    def add(self, name: str, text: str, flags: str = "", **more: Any) -> None:
        """Run a script when there is room. `more`: as for `run`."""
        folder = self._folder / name
        self._futures[name] = self._pool.submit(run, folder, text, flags, **more)

    def __getitem__(self, name: str) -> Ended:
        return self._futures[name].result()

    def close(self) -> None:
        """Wait for those that run, and start no more."""
        self._pool.shutdown(cancel_futures=True)


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
