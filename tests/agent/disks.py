"""Real file systems that misbehave: frozen (every write waits for ever, in state D) and full."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def _call(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@contextlib.contextmanager
def frozen() -> Iterator[tuple[Path, Callable[[], None]]]:
    """A mounted ext4 that can be frozen with the second value; thawed and unmounted at the end."""
    with tempfile.TemporaryDirectory(prefix="frozen-", dir="/tmp") as folder:
        image, disk = Path(folder, "image"), Path(folder, "disk")
        disk.mkdir()
        with image.open("wb") as file:
            file.truncate(16 << 20)
        _call("mkfs.ext4", "-q", image)
        _call("mount", "-o", "loop", image, disk)
        is_frozen = False

        def freeze() -> None:
            nonlocal is_frozen
            _call("fsfreeze", "-f", disk)
            is_frozen = True

        try:
            yield disk, freeze
        finally:
            if is_frozen:
                _call("fsfreeze", "-u", disk)
            _unmount(disk)


@contextlib.contextmanager
def full() -> Iterator[tuple[Path, Callable[[], None]]]:
    """A small tmpfs that can be filled up."""
    with tempfile.TemporaryDirectory(prefix="full-", dir="/tmp") as folder:
        _call("mount", "-t", "tmpfs", "-o", "size=256k", "none", folder)

        def fill() -> None:
            with contextlib.suppress(OSError), Path(folder, "ballast").open("wb", 0) as file:
                while True:
                    file.write(b"\0" * 4096)

        try:
            yield Path(folder), fill
        finally:
            _unmount(Path(folder))


def _unmount(disk: Path) -> None:
    """Whoever hung on it needs a moment to let go."""
    end = time.monotonic() + 10
    while True:
        try:
            return _call("umount", disk)
        except subprocess.CalledProcessError:
            if time.monotonic() > end:
                _call("umount", "-l", disk)
                return None
            time.sleep(0.1)


def in_state_d(pid: int) -> bool:
    """Whether a process waits in the kernel and cannot be interrupted."""
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")
        states = [Path(f"/proc/{pid}/task/{thread}/stat").read_text() for thread in threads]
        return any(text.rpartition(")")[2].split()[0] == "D" for text in states)
    return False
