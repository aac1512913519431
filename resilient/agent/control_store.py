"""The store that the agents of a run share, as the control plane needs it: nothing here waits for
a key that may never come.

Over torch's TCPStore. Its get waits; compare_set also reads a key and does not wait, but wakes
those who wait for the key, as if it were there.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Protocol

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from resilient.model.errors import Unavailable
from resilient.sense.own_sockets import next_descriptor, sockets_to

PREFIX = "resilient"
_NEVER = "\0"  # no message of ours is this
TCP_USER_TIMEOUT = 18  # of <netinet/tcp.h>; the socket module names it only on some systems
KEEP_IDLE_S = 5
_connecting = threading.Lock()  # one at a time: a new socket is told by its number


class StoreLost(Unavailable):
    """The store's host does not answer any more."""


class ControlStore(Protocol):
    """What the control plane asks of a store. Every method raises StoreLost."""

    def read(self, key: str) -> bytes | None:
        """The value of a key now; None where there is none."""

    def peek(self, key: str) -> bytes | None:
        """As `read`, in one operation, of a key for which nobody waits."""

    def read_all(self, keys: list[str]) -> list[bytes | None]:
        """The values of keys of which all are there; where one is not, of each as by `peek`."""

    def write(self, key: str, value: str) -> None:
        """Set a key that only this agent writes. Does not wait for the store's answer."""

    def replace(self, key: str, value: str, expected: bytes = b"") -> bytes:
        """Set a key if it holds `expected` (empty: nothing). Returns what it holds afterwards."""

    def count(self, key: str) -> int:
        """Add one to a counter, and return what it is then."""

    def until_set(self, key: str, timeout_s: float) -> bool:
        """Block until a key is there; False where that took too long."""


class TorchControlStore:
    """A connection of its own to a store of torch; one thread at a time may use it."""

    def __init__(self, store: TCPStore, scope: str, silent_s: float) -> None:
        """`silent_s`: how long an unanswered packet may be on its way to the store's host."""
        self._prefix = f"{PREFIX}/{scope}/"
        with _connecting:
            likely = next_descriptor()
            with _network():
                self._store: Any = store.clone()  # type: ignore[attr-defined]
            notice_silence(self._store.host, self._store.port, silent_s, likely)

    def read(self, key: str) -> bytes | None:
        with _network():
            there = self._store.check([self._prefix + key])
        return self.peek(key) if there else None

    def peek(self, key: str) -> bytes | None:
        with _network():
            value: bytes = self._store.compare_set(self._prefix + key, _NEVER, _NEVER)
            return None if value == _NEVER.encode() else value

    def read_all(self, keys: list[str]) -> list[bytes | None]:
        with _network():
            names = [self._prefix + key for key in keys]
            if self._store.check(names):
                return list(self._store.multi_get(names))
        return [self.peek(key) for key in keys]

    def write(self, key: str, value: str) -> None:
        with _network():
            self._store.set(self._prefix + key, value)

    def replace(self, key: str, value: str, expected: bytes = b"") -> bytes:
        with _network():
            now: bytes = self._store.compare_set(self._prefix + key, expected, value)
            return now

    def count(self, key: str) -> int:
        with _network():
            return int(self._store.add(self._prefix + key, 1))

    def until_set(self, key: str, timeout_s: float) -> bool:
        started = time.monotonic()
        try:
            self._store.wait([self._prefix + key], timedelta(seconds=timeout_s))
        except (RuntimeError, LookupError) as error:
            if time.monotonic() - started >= timeout_s:
                return False
            raise StoreLost(str(error).splitlines()[0][:200]) from error
        return True


@contextmanager
def _network() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, LookupError, OSError) as error:
        raise StoreLost(str(error).splitlines()[0][:200]) from error


def notice_silence(host: str, port: int, seconds: float, likely: int = -1) -> None:
    """Let this process's connections to a store end when its host falls silent.

    A client of torch's TCPStore waits for ever then: its timeout is kept by the server. Where
    descriptor `likely` is such a connection, only that one is meant.
    """
    for one in sockets_to(host, port, likely):
        with suppress(OSError):  # already at its end
            one.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, int(seconds * 1000))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_IDLE_S)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
