"""Two ways to write a small file: line after line, or whole and at once.

Both may be stuck for ever on a hung disk: only the scribe's disk thread calls them.
"""

import os
import secrets
from pathlib import Path


class Appender:
    """Appends records to one file; a line that was torn by an error is ended first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._torn = False

    def append(self, lines: bytes) -> None:
        """Appends whole lines in one write. Raises OSError; part may then have been written."""
        try:
            if self._fd < 0:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._fd = os.open(self._path, flags, 0o600)
            data = b"\n" + lines if self._torn else lines
            self._torn = True
            rest = memoryview(data)
            while rest:  # a second write tells why the first was short
                rest = rest[os.write(self._fd, rest) :]
            self._torn = False
        except OSError:
            self.close()  # a stale handle stays stale: open again next time
            raise

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def write_whole(path: Path, data: bytes) -> None:
    """Readers see the old content or all of the new one, a crash of the machine included.

    Raises OSError; the old file is then untouched.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(fd)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
