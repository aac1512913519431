"""A log file that keeps its beginning and its end, and never grows beyond a bound.

`<stem>.log` holds the first `head` bytes. What follows goes to segments
`<stem>.tail-0001.log`, `-0002`, … of `segment` bytes, of which the last `keep` remain:
so the head, and at least the last `segment * (keep - 1)` bytes, byte for byte.

Whoever writes here may be stuck for ever in a call to a hung disk: only the scribe's
disk thread does.
"""

import os
from pathlib import Path

MIB = 1 << 20
HEAD = 4 * MIB
SEGMENT = 15 * MIB
KEEP = 4


class BoundedLog:
    """Appends to `<stem>.log` and its segments; goes on where an earlier writer stopped."""

    def __init__(
        self, stem: str, *, head: int = HEAD, segment: int = SEGMENT, keep: int = KEEP
    ) -> None:
        self.missing = 0  # bytes that could not be written, altogether
        self.reason = ""  # why, the last time
        self._stem = Path(stem)
        self._head = head
        self._segment = segment
        self._keep = keep
        self._fd = -1
        self._number = -1  # -1: not looked yet, 0: the head, else the segment
        self._size = 0
        self._gap = 0  # bytes missing since the last good write

    def write(self, data: bytes) -> int:
        """Appends `data`; returns how many of its bytes were lost to an error. Never raises."""
        view = memoryview(data)
        try:
            self._open()
            if self._gap:
                self._append(memoryview(self._marker()))
                self._gap = 0
            while view:
                room = self._limit() - self._size
                if room <= 0:
                    self._next()
                    continue
                view = view[self._append(view[:room]) :]
        except OSError as error:
            self.reason = error.strerror or str(error)
            self._gap += len(view)
            self.missing += len(view)
            self.close()  # a stale handle stays stale: open again next time
        return len(view)

    def omit(self, count: int, reason: str) -> None:
        """Notes that `count` bytes never came here; said in the file at the next write."""
        self._gap += count
        self.missing += count
        self.reason = reason

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _marker(self) -> bytes:
        return f"\n[resilient-run: {self._gap} bytes are missing here: {self.reason}]\n".encode()

    def _limit(self) -> int:
        return self._head if self._number == 0 else self._segment

    def _append(self, view: memoryview) -> int:
        """One write of part of `view`; returns its length."""
        done = os.write(self._fd, view)
        self._size += done
        return done

    def _path(self, number: int) -> Path:
        name = self._stem.name + (f".tail-{number:04d}.log" if number else ".log")
        return self._stem.with_name(name)

    def _open(self) -> None:
        if self._fd >= 0:
            return
        if self._number < 0:
            self._stem.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._number = max(self._segments(), default=0)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path(self._number), flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _segments(self) -> list[int]:
        start, end = self._stem.name + ".tail-", ".log"
        names = [p.name for p in self._stem.parent.iterdir()]
        found = [n[len(start) : -len(end)] for n in names if n.startswith(start)]
        return [int(n) for n in found if n.isdigit()]

    def _next(self) -> None:
        self.close()
        self._number += 1
        old = self._number - self._keep
        if old > 0:
            self._path(old).unlink(missing_ok=True)
        self._open()
