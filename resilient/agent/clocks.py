"""Estimates this node's clock offset: three messages to the group's first node and back.

    tickets ─► ask/k (this node) ─► answer/k (the first node, with its time)

A store has no clock of its own, so the first node of the group stands for it. Where no answer
came, the uncertainty says that nothing is known of the order of events across nodes.
"""

import math
import threading
import time
from contextlib import suppress

import msgspec

from resilient.agent.connections import Connections
from resilient.agent.control_store import ControlStore, StoreLost
from resilient.agent.sealing import Refused, Seal
from resilient.decide.clock import Offset, Ping, offset

PINGS, ANSWER_S, WAIT_S = 3, 5.0, 3600.0
FRESH_S = 600.0
ASK_PER_S = 50.0  # nodes: each asks some ten things of the store
UNKNOWN = Offset(offset_s=0.0, uncertainty_s=86400.0)
SAME = Offset(offset_s=0.0, uncertainty_s=0.0)


class Moment(msgspec.Struct, frozen=True):
    """Seconds since the epoch on the clock of whoever wrote it."""

    at: float


class Clock:
    """The offset of one node in one attempt, found on a thread with its own connection."""

    def __init__(self, connections: Connections, seal: Seal, attempt: int) -> None:
        self._seal, self._connections = seal, connections
        self._base = f"attempt/{attempt}/clock"
        self.offset = UNKNOWN
        self.measured_at = -math.inf  # monotonic
        self._closed = threading.Event()
        self._answers = False

    @property
    def is_fresh(self) -> bool:
        """Whether the offset was measured, and not long ago: clocks drift."""
        return time.monotonic() - self.measured_at < FRESH_S

    def answer(self) -> None:
        """On the first node: answer the others until closed."""
        self.offset, self.measured_at, self._answers = SAME, time.monotonic(), True
        threading.Thread(target=self._answer, name="resilient-clock-answers", daemon=True).start()

    def ask(self, turn: int = 0) -> None:
        """On another node: estimate the offset, when it is its turn among the others."""
        thread = threading.Thread(
            target=self._ask, args=(turn / ASK_PER_S,), name="resilient-clock", daemon=True
        )
        thread.start()

    def know(self, before: "Clock") -> None:
        """On another node: what the last attempt's clock has found still holds."""
        self.offset, self.measured_at = before.offset, before.measured_at

    def close(self, store: ControlStore) -> None:
        """Let the answering thread go. Raises StoreLost."""
        self._closed.set()
        if self._answers:
            self._put(store, f"ask/{store.count(f'{self._base}/tickets')}", Moment(0.0))

    def _answer(self) -> None:
        ticket = 0
        # The beater says when the store is lost.
        with suppress(StoreLost), self._connections.lent() as store:
            while not self._closed.is_set():
                ticket += 1
                if store.until_set(f"{self._base}/ask/{ticket}", WAIT_S):
                    self._put(store, f"answer/{ticket}", Moment(time.time()))

    def _ask(self, wait_s: float) -> None:
        if self._closed.wait(wait_s):
            return
        pings = []
        with suppress(StoreLost, Refused), self._connections.lent() as store:
            for _ in range(PINGS):
                ticket = store.count(f"{self._base}/tickets")
                sent, answer = time.time(), f"{self._base}/answer/{ticket}"
                self._put(store, f"ask/{ticket}", Moment(sent))
                if not store.until_set(answer, ANSWER_S):
                    break
                received, message = time.time(), store.read(answer) or b""
                moment = self._seal.open(answer, message, Moment)
                pings.append(Ping(sent=sent, remote=moment.at, received=received))
        found = offset(pings)
        if found is not None:
            self.offset, self.measured_at = found, time.monotonic()

    def _put(self, store: ControlStore, name: str, moment: Moment) -> None:
        key = f"{self._base}/{name}"
        store.write(key, self._seal.close(key, moment))
