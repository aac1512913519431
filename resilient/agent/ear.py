"""Waits, on a thread of its own, for the alarm of an attempt and then for the decision on it.

The store tells a waiting client as soon as a key is there, so an alarm reaches a thousand agents
in milliseconds and costs nothing while there is none.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from resilient.agent.agreement import decision_key, opened
from resilient.agent.connections import Connections
from resilient.agent.control_store import ControlStore, StoreLost
from resilient.agent.sealing import Seal
from resilient.model.membership import Alarm, GroupDecision

T = TypeVar("T")
ALARM_BYTES = 4 << 10
FOREIGN_S = 0.25  # between two looks at a key under which somebody else's value lies
WAIT_S = 3600.0  # of one wait; torch prints a warning when one ends without a result


def alarm_key(attempt: int) -> str:
    """Where the first word of trouble in an attempt lies."""
    return f"attempt/{attempt}/alarm"


def opened_alarm(seal: Seal, attempt: int, message: bytes | None) -> Alarm | None:
    """The alarm in a message from its key; None where there is none, or a foreign value."""
    return seal.opened(alarm_key(attempt), message, Alarm, ALARM_BYTES)


class Ear:
    """Listens in one attempt. `wake` is called on the thread when something was heard."""

    def __init__(
        self,
        connections: Connections,
        seal: Seal,
        attempt: int,
        *,
        wake: Callable[[], None],
    ) -> None:
        self._connections, self._seal, self._attempt, self._wake = connections, seal, attempt, wake
        self.alarm: Alarm | None = None  # once heard
        self.decision: GroupDecision | None = None
        self._closed = False

    def listen(self) -> None:
        """Begin."""
        threading.Thread(target=self._listen, name="resilient-ear", daemon=True).start()

    def close(self) -> None:
        """Stop at the next sound. A thread that waits in the store is let go by an alarm."""
        self._closed = True

    def _listen(self) -> None:
        # The beater says when the store is lost.
        with suppress(StoreLost), self._connections.lent() as store:
            self.alarm = self._hear(store, alarm_key(self._attempt), opened_alarm)
            self._wake()
            self.decision = self._hear(store, decision_key(self._attempt), opened)
            self._wake()

    def _hear(
        self, store: ControlStore, key: str, opened: Callable[[Seal, int, bytes | None], T | None]
    ) -> T | None:
        while not self._closed:
            if store.until_set(key, WAIT_S):
                found = opened(self._seal, self._attempt, store.read(key))
                if found is not None:
                    return found
            time.sleep(FOREIGN_S)
        return None
