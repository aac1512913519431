"""Keeps what is written to standard descriptors, until it can be written where it belongs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys

from . import libc
from .channel import lift


class Capture:
    """Points some descriptors to a file in memory, from construction until `stop`.

    A descriptor that is closed stays so.
    """

    def __init__(self, *fds: int) -> None:
        flush()
        self._file = lift(os.memfd_create("captured"))
        self._saved: dict[int, int] = {}
        for fd in fds:
            with contextlib.suppress(OSError):
                self._saved[fd] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, self._file)
                os.dup2(self._file, fd)

    def stop(self) -> bytes:
        """Point the descriptors back to where they were; return what was written meanwhile."""
        flush()
        for fd, saved in self._saved.items():
            os.dup2(saved, fd)
            os.close(saved)
        size = os.fstat(self._file).st_size
        text = os.pread(self._file, size, 0) if size else b""
        os.close(self._file)
        return text


def flush() -> None:
    """Flush Python's and the C library's buffers of the standard streams."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    libc.flush()


def replay(fd: int, text: bytes) -> None:
    """Write captured text to a descriptor; what cannot be written is lost, as it always was."""
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(fd, text) :]
