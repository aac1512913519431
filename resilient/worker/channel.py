"""The socket between a worker and its agent: 4 bytes of length, then a JSON object.

A worker must never suffer from its agent: a message that cannot be sent within a second is
given up, and the channel with it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import socket
import struct
import threading
import time

from . import libc

_LIMIT = 8 << 20  # bytes, as in model/protocol.py, which this package must not import
_SEND_S = 1.0
_MAX_FDS = 8


class Closed(Exception):  # not an error: how an agent says that it is gone
    """The agent has closed its end."""


def lift(fd: int) -> int:
    """Move a descriptor to a high number, close-on-exec, so that the script sees none of it."""
    for floor in (200, 100, 30, 10):
        with contextlib.suppress(OSError):  # the limit on open files lies below that
            high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor)
            os.close(fd)
            return high
    os.set_inheritable(fd, False)
    return fd


def own(fd: int, kind: str) -> int:
    """`fd` if it is open and of this kind, as /proc names it, else -1.

    A wrapper may have closed what the agent gave, and the number be another file's by now.
    """
    try:
        return fd if os.readlink(f"/proc/self/fd/{fd}").startswith(kind) else -1
    except OSError:
        return -1


class Channel:
    """One end of the socket; sends from any thread, receives from one."""

    def __init__(self, fd: int) -> None:
        """Take over `fd`; -1 is a channel that is closed."""
        self.fd = lift(fd) if fd >= 0 else -1
        self._inode = os.fstat(self.fd).st_ino if fd >= 0 else -1
        self._lock = threading.Lock()

    def send(self, kind: str, **fields: object) -> None:
        """Send one message; silently nothing when the channel is closed or broken."""
        body = json.dumps({"t": kind, **fields}).encode()
        with self._lock:
            if self._is_ours() and not self._write(struct.pack(">I", len(body)) + body):
                self.close()

    def _is_ours(self) -> bool:
        """Scripts that become daemons close every descriptor; the number may be theirs by now."""
        try:
            return self.fd >= 0 and os.fstat(self.fd).st_ino == self._inode
        except OSError:
            return False

    def _write(self, data: bytes) -> bool:
        deadline = time.monotonic() + _SEND_S
        while data:
            try:
                sent = libc.send(self.fd, data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                data = data[sent:]
            except OSError as error:
                left = deadline - time.monotonic()
                if error.errno not in (errno.EAGAIN, errno.EINTR) or left <= 0:
                    return False
                poll = select.poll()
                poll.register(self.fd, select.POLLOUT)
                poll.poll(int(left * 1000) + 1)
        return True

    def receive(self) -> tuple[dict[str, object], list[int]]:
        """Wait for one message; return it and the descriptors that came with it.

        Raises Closed at the end of the stream, ValueError for what is not a message.
        """
        fds: list[int] = []
        (length,) = struct.unpack(">I", self._read(4, fds))
        if length > _LIMIT:
            raise ValueError(f"a message of {length} bytes")
        message = json.loads(self._read(length, fds))
        return dict(message), fds

    def _read(self, count: int, fds: list[int]) -> bytes:
        data = b""
        with socket.socket(fileno=self.fd) as end:
            end.setblocking(True)
            try:
                while len(data) < count:
                    part, received, _, _ = socket.recv_fds(
                        end, count - len(data), _MAX_FDS, socket.MSG_CMSG_CLOEXEC
                    )
                    fds += received
                    if not part:
                        raise Closed
                    data += part
            except ConnectionError as error:
                raise Closed from error
            finally:
                end.detach()
        return data

    def close(self) -> None:
        """Close this end; later messages go nowhere."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)
