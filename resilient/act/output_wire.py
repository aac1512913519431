"""Messages between the agent and its scribe, with file descriptors, never blocking.

A message is one JSON object, a newline, and raw bytes; it may carry descriptors. It
travels over a SOCK_SEQPACKET socket pair that nobody else can reach, in packets of at
most `PACKET` bytes, the first byte of which says whether more of the same message
follows.

A wire never waits: what the socket does not take now stays in a bounded queue until
`flush` is called again. Messages that may be lost (`droppable`) are refused and
counted once that queue holds `bound` bytes; all others are few and always queued.
"""

import errno
import json
import os
import socket
from collections import deque
from typing import Any

PACKET = 60_000  # bytes in one packet; two fit the kernel's default socket buffer
LARGEST = 64 << 20  # bytes of one message; more is an error of ours
MAX_FDS = 4
_MORE, _LAST = b"+", b"."
_TRY_LATER = {errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS, errno.ENOMEM, errno.EINTR}

Head = dict[str, Any]


class _Outgoing:
    __slots__ = ("body", "droppable", "fds", "sent")

    def __init__(self, body: bytes, fds: tuple[int, ...], droppable: bool) -> None:
        self.body = body
        self.fds = fds
        self.droppable = droppable
        self.sent = 0


class Message:
    """One received message; the receiver owns `fds`."""

    __slots__ = ("fds", "head", "payload")

    def __init__(self, head: Head, payload: bytes, fds: list[int]) -> None:
        self.head = head
        self.payload = payload
        self.fds = fds


class Wire:
    """One end of the socket pair. `dropped` counts refused messages, `closed` is final."""

    def __init__(self, sock: socket.socket, *, bound: int = 16 << 20) -> None:
        sock.setblocking(False)
        self.closed = False
        self.dropped = 0
        self._sock = sock
        self._bound = bound
        self._queue: deque[_Outgoing] = deque()
        self._queued = 0
        self._parts: list[bytes] = []
        self._fds: list[int] = []

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def pending(self) -> bool:
        """Whether something waits for room in the socket."""
        return bool(self._queue)

    def send(
        self,
        head: Head,
        payload: bytes = b"",
        *,
        fds: tuple[int, ...] = (),
        droppable: bool = False,
    ) -> bool:
        """Queues one message and sends what the socket takes; False when it was dropped."""
        text = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
        body = b"\n".join((text.encode("utf-8", "surrogateescape"), payload))
        if droppable and (self._queued + len(body) > self._bound or len(body) > LARGEST):
            self.dropped += 1
            return False
        self._queue.append(_Outgoing(body, fds, droppable))
        self._queued += len(body)
        self.flush()
        return True

    def flush(self) -> bool:
        """Sends what the socket takes now; True when nothing is left."""
        while self._queue and not self.closed:
            item = self._queue[0]
            part = item.body[item.sent : item.sent + PACKET]
            last = item.sent + len(part) == len(item.body)
            try:
                packet = [_LAST if last else _MORE, part]
                if last and item.fds:
                    socket.send_fds(self._sock, packet, item.fds)
                else:
                    self._sock.sendmsg(packet)
            except OSError as error:
                if error.errno in _TRY_LATER:
                    return False
                self.closed = True
                return False
            item.sent += len(part)
            if last:
                self._queue.popleft()
                self._queued -= len(item.body)
        return not self._queue

    def receive(self, limit: int = 64) -> list[Message]:
        """Up to `limit` messages that are there; sets `closed` at end of file."""
        messages: list[Message] = []
        while len(messages) < limit and not self.closed:
            try:
                packet, fds, flags, _ = socket.recv_fds(self._sock, PACKET + 1, MAX_FDS)
            except BlockingIOError:
                break
            except OSError:
                packet, fds, flags = b"", [], 0
            if not packet:
                self.closed = True
                break
            if flags & socket.MSG_CTRUNC:
                raise OSError(errno.EMFILE, "no descriptor left to receive a channel")
            self._fds += fds
            self._parts.append(packet[1:])
            if packet[:1] == _LAST:
                messages.append(self._assemble())
        return messages

    def _assemble(self) -> Message:
        head, _, payload = b"".join(self._parts).partition(b"\n")
        message = Message(json.loads(head.decode("utf-8", "surrogateescape")), payload, self._fds)
        self._parts, self._fds = [], []
        return message

    def take_droppable(self) -> list[bytes]:
        """Bodies of droppable messages not fully sent: what a successor is to send."""
        return [item.body for item in self._queue if item.droppable]

    def give_droppable(self, bodies: list[bytes]) -> None:
        """Queues bodies that `take_droppable` of a predecessor returned."""
        for body in bodies:
            self._queue.append(_Outgoing(body, (), True))
            self._queued += len(body)
        self.flush()

    def close(self) -> None:
        self.closed = True
        for fd in self._fds:
            os.close(fd)
        self._fds = []
        self._sock.close()
