"""Connections to the store: one for each thread that needs it, used again when the thread ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from resilient.agent.control_store import ControlStore


class Connections:
    """Opens connections and keeps those that are free."""

    def __init__(self, connect: Callable[[], ControlStore]) -> None:
        self._connect = connect
        self._free: list[ControlStore] = []

    def open(self) -> ControlStore:
        """A connection to keep. Raises StoreLost."""
        try:
            return self._free.pop()
        except IndexError:
            return self._connect()

    @contextmanager
    def lent(self) -> Iterator[ControlStore]:
        """A connection for a while; one that failed is not used again. Raises StoreLost."""
        store = self.open()
        yield store
        self._free.append(store)
