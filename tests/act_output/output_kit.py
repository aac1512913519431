"""What the tests of output capture share: real agents, real workers, real disks.

`agent` runs a piece of code in a process of its own, because a scribe's consoles are
that process's stdout and stderr. In that code, and in tests that need no console,
`Job` plays the launcher.
"""

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from resilient.act.scribe_client import Scribe

ROOT = Path(__file__).resolve().parents[2]
PRELUDE = "from output_kit import *\nimport os, signal, sys, time\n"
PATIENCE_S = 60.0


class Job:
    """A scribe and the workers that print through it."""

    def __init__(self, *candidates: object, run_id: str = "run", node: str = "node") -> None:
        self.scribe = Scribe.start()
        self.notes: list[str] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        if candidates:
            self.scribe.open_run([str(path) for path in candidates], run_id=run_id, node=node)

    def start(
        self,
        code: str,
        *args: object,
        rank: int = 0,
        attempt: int = 0,
        console: bool = True,
        stderr: bool = True,
    ) -> "subprocess.Popen[bytes]":
        outputs = self.scribe.outputs(
            attempt=attempt, rank=rank, stdout=True, stderr=stderr, console=console
        )
        command = [sys.executable, "-I", "-S", "-u", "-c", code, *map(str, args)]
        worker = subprocess.Popen(
            command, stdout=outputs.stdout_fd, stderr=outputs.stderr_fd, start_new_session=True
        )
        outputs.close()
        self.workers.append(worker)
        return worker

    def pump(self, until: Callable[[], Any], timeout_s: float = PATIENCE_S) -> bool:
        """Plays the agent's loop until something holds; False when it did not in time."""
        deadline = time.monotonic() + timeout_s
        while not until():
            if time.monotonic() > deadline:
                return False
            select.select([self.scribe], [], [], 0.02)
            self.notes += self.scribe.poll()
            self.scribe.revive()
        return True

    def wait(self, timeout_s: float = PATIENCE_S) -> list[int | None]:
        """The exit codes of all workers."""
        assert self.pump(lambda: all(w.poll() is not None for w in self.workers), timeout_s)
        return [worker.returncode for worker in self.workers]

    def folder(self) -> Path:
        """The run directory, once it was found."""
        assert self.pump(lambda: self.scribe.run_dir)
        return Path(str(self.scribe.run_dir))

    def finish(self, attempt: int = 0, timeout_s: float = PATIENCE_S) -> list[int | None]:
        """Waits for the workers, drains, closes."""
        codes = self.wait()
        assert self.scribe.drain(attempt, timeout_s=timeout_s)
        self.notes += self.scribe.poll()
        self.scribe.close(10)
        return codes


def agent(code: str, *args: object, **options: Any) -> "subprocess.Popen[bytes]":
    """Runs `code` (with this module's names) as an agent; `args` are its sys.argv[1:]."""
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}
    command = [sys.executable, "-u", "-c", PRELUDE + code, *map(str, args)]
    return subprocess.Popen(command, env=env, **options)


def run_agent(code: str, *args: object) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of an agent whose outputs are two pipes."""
    with agent(code, *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def eventually(condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def alive(pid: int) -> bool:
    """Whether a process runs: neither gone nor a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def open_fds() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@contextlib.contextmanager
def mounted(*command: object, at: Path) -> Iterator[Path]:
    """Mounts something for the time of a `with` block, whatever happens in it."""
    at.mkdir()
    subprocess.run(["mount", *map(str, command), str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["fsfreeze", "-u", str(at)], check=False, capture_output=True)
        if not eventually(lambda: _unmounted(at), 10):
            subprocess.run(["umount", "-l", str(at)], check=False)


def _unmounted(at: Path) -> bool:
    command = ["umount", str(at)]
    return not subprocess.run(command, capture_output=True, check=False).returncode


@contextlib.contextmanager
def ext4(folder: Path) -> Iterator[Path]:
    """A small real disk of its own, which can be frozen."""
    image = folder / "disk.img"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    with mounted("-o", "loop", image, at=folder / "disk") as disk:
        yield disk


def freeze(disk: Path) -> None:
    subprocess.run(["fsfreeze", "-f", str(disk)], check=True)


def thaw(disk: Path) -> None:
    subprocess.run(["fsfreeze", "-u", str(disk)], check=True)


def logs(folder: Path, rank: int = 0, attempt: int = 0) -> Mapping[str, bytes]:
    """All log files of a rank by name."""
    place = folder / f"nodes/node/attempt-{attempt}/{rank}"
    return {path.name: path.read_bytes() for path in sorted(place.iterdir())}
