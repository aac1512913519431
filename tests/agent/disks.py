"""Real file systems that misbehave: frozen (every write waits for ever, in state D) and full."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


def _call(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


class Ext4:
    """A mounted file system that can be frozen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._frozen = False

    def freeze(self) -> None:
        _call("fsfreeze", "-f", self.path)
        self._frozen = True

    def thaw(self) -> None:
        if self._frozen:
            _call("fsfreeze", "-u", self.path)
        self._frozen = False


@contextlib.contextmanager
def ext4() -> Iterator[Ext4]:
    """Made in a file; thawed and unmounted at the end."""
    with tempfile.TemporaryDirectory(prefix="frozen-", dir="/tmp") as folder:
        image, path = Path(folder, "image"), Path(folder, "disk")
        path.mkdir()
        with image.open("wb") as file:
            file.truncate(16 << 20)
        _call("mkfs.ext4", "-q", image)
        _call("mount", "-o", "loop", image, path)
        disk = Ext4(path)
        try:
            yield disk
        finally:
            disk.thaw()
            _unmount(path)


class Tmpfs:
    """A small file system that can be filled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        with contextlib.suppress(OSError), (self.path / "ballast").open("wb", 0) as file:
            while True:
                file.write(b"\0" * 4096)


@contextlib.contextmanager
def tmpfs() -> Iterator[Tmpfs]:
    """Unmounted at the end."""
    with tempfile.TemporaryDirectory(prefix="full-", dir="/tmp") as folder:
        _call("mount", "-t", "tmpfs", "-o", "size=256k", "none", folder)
        try:
            yield Tmpfs(Path(folder))
        finally:
            _unmount(Path(folder))


def _unmount(path: Path) -> None:
    """Whoever hung on it needs a moment to let go."""
    end = time.monotonic() + 10
    while True:
        try:
            return _call("umount", path)
        except subprocess.CalledProcessError:
            if time.monotonic() > end:
                return _call("umount", "-l", path)
            time.sleep(0.1)


def in_state_d(pid: int) -> bool:
    """Whether a process waits in the kernel and cannot be interrupted."""
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")
        states = [Path(f"/proc/{pid}/task/{thread}/stat").read_text() for thread in threads]
        return any(text.rpartition(")")[2].split()[0] == "D" for text in states)
    return False
