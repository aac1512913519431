"""The agent's end of the socket to one worker. See `model/protocol.py` for what is said."""

import array
import fcntl
import json
import os
import resource
import socket
import struct
from collections.abc import Sequence
from typing import Any

from resilient.model.protocol import MESSAGE_LIMIT

Message = dict[str, Any]


class Channel:
    """Never blocks on reading; a peer that breaks the protocol is cut off and said so."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.setblocking(False)
        self._buffer = bytearray()
        self.open = True
        self.refused = ""  # why the peer was cut off

    @classmethod
    def pair(cls) -> tuple["Channel", int]:
        """A channel and the file descriptor of its other end, to be inherited by a worker."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours), theirs.detach()

    def fileno(self) -> int:
        """For the agent's poll."""
        return self._sock.fileno()

    def read(self) -> list[Message]:
        """All complete messages that have arrived; `open` turns false at end of file."""
        while self.open:
            try:
                chunk = self._sock.recv(1 << 16)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                chunk = b""
            if not chunk:
                self.open = False
                break
            self._buffer += chunk
            if len(self._buffer) > MESSAGE_LIMIT + 4:
                self._refuse("message over the size limit")
        return self._split()

    def _split(self) -> list[Message]:
        messages: list[Message] = []
        while len(self._buffer) >= 4:
            (size,) = struct.unpack_from(">I", self._buffer)
            if size > MESSAGE_LIMIT:
                self._refuse(f"announces a message of {size} bytes")
                break
            if len(self._buffer) < 4 + size:
                break
            body = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            try:
                message = json.loads(body)
            except ValueError:
                self._refuse("not JSON")
                break
            if not isinstance(message, dict) or not isinstance(message.get("t"), str):
                self._refuse("not a message")
                break
            messages.append(message)
        return messages

    def _refuse(self, why: str) -> None:
        self.refused, self.open = why, False
        self._buffer.clear()

    def send(self, message: Message, fds: Sequence[int] = (), timeout_s: float = 2.0) -> bool:
        """Send a message, file descriptors with its first byte. False when the peer is gone.

        The peer may be busy importing; what the socket does not take at once waits for room for
        at most `timeout_s` seconds.
        """
        body = json.dumps(message).encode()
        data = struct.pack(">I", len(body)) + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._sock.settimeout(timeout_s)
            sent = self._sock.sendmsg([data], rights)
            self._sock.sendall(data[sent:])
        except OSError:
            return False
        finally:
            self._sock.setblocking(False)
        return True

    def close(self) -> None:
        """Hang up; a waiting standby then ends."""
        self.open = False
        self._sock.close()


def high_fd(fd: int) -> int:
    """A duplicate with a high number, so that the worker's first open() still gets 3."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    floor = max(3, min(400, soft - 64))
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor)
    finally:
        os.close(fd)
