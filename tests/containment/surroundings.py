"""What the containment tests share: waiting, finding processes, another user, a frozen disk."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def wait_until(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain: {what}"
        time.sleep(0.005)


def running(tag: str) -> list[int]:
    """Pids of all live processes that have `tag` in their command line."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                line = Path("/proc", entry, "cmdline").read_bytes()
            except OSError:
                continue
            if tag.encode() in line:
                found.append(int(entry))
    return found


def nothing_left(tag: str) -> bool:
    """Looked at repeatedly: one look can miss a process that re-forks itself."""
    return not any(running(tag) for _ in range(5))


def exterminate(tag: str) -> None:
    end = time.monotonic() + 10
    while not nothing_left(tag) and time.monotonic() < end:
        for pid in running(tag):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def open_folder() -> Iterator[str]:
    """A folder that every user may write to; whatever carries its name dies with it."""
    folder = tempfile.mkdtemp(prefix="containment-", dir="/tmp")
    os.chmod(folder, 0o777)
    try:
        yield folder
    finally:
        exterminate(folder)
        shutil.rmtree(folder, ignore_errors=True)


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-B", *arguments]


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "PYTEST", "COV"))}
    return kept | {"PYTHONPATH": str(REPOSITORY)}


def as_nobody(command: Sequence[str], folder: str) -> list[str]:
    """The command as an ordinary user; where that one cannot reach the interpreter, a view of
    the file system in which it can (a mount namespace that ends with the command)."""
    change = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    home = Path(sys.base_prefix)
    closed = [p for p in (*home.parents, home) if not p.stat().st_mode & 0o001]
    if not closed:
        return [*change, *command]
    aside = f"{folder}/interpreter"
    script = (
        f"mkdir -p {aside} && mount --bind {home} {aside} && "
        f"mount -t tmpfs -o mode=755 none {closed[-1]} && mkdir -p {home} && "
        f'mount --move {aside} {home} && exec "$@"'
    )
    return [
        "unshare",
        "-m",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        "sh",
        *change,
        *command,
    ]


@contextmanager
def frozen_disk() -> Iterator[tuple[str, Callable[[], None]]]:
    """A mounted file system on which every write hangs in state D, and how to thaw it."""
    place = tempfile.mkdtemp(prefix="frozen-", dir="/tmp")
    image, mountpoint = f"{place}/image", f"{place}/disk"
    os.mkdir(mountpoint)
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    frozen = mounted = False

    def thaw() -> None:
        nonlocal frozen
        if frozen:
            frozen = False
            subprocess.run(["fsfreeze", "-u", mountpoint], check=True)

    try:
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, mountpoint], check=True)
        mounted = True
        Path(mountpoint, "file").write_bytes(b"x")
        subprocess.run(["fsfreeze", "-f", mountpoint], check=True)
        frozen = True
        yield mountpoint, thaw
    finally:
        thaw()
        if mounted:
            exterminate(mountpoint)
            subprocess.run(["umount", mountpoint], check=True)
        shutil.rmtree(place)
