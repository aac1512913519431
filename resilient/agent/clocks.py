"""Estimates this node's clock offset: three messages to the group's first node and back.

    tickets ─► ask/k (this node) ─► answer/k (the first node, with its time)

A store has no clock of its own, so the first node of the group stands for it. Where no answer
came, the uncertainty says that nothing is known of the order of events across nodes.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from resilient.agent.control_store import ControlStore, StoreLost
from resilient.agent.sealing import Refused, Seal
from resilient.decide.clock import Offset, Ping, offset

PINGS, ANSWER_S, WAIT_S = 3, 5.0, 3600.0
UNKNOWN = Offset(offset_s=0.0, uncertainty_s=86400.0)
SAME = Offset(offset_s=0.0, uncertainty_s=0.0)


class Moment(msgspec.Struct, frozen=True):
    """Seconds since the epoch on the clock of whoever wrote it."""

    at: float


class Clock:
    """The offset of one node in one attempt, found on a thread with its own connection."""

    def __init__(self, connect: Callable[[], ControlStore], seal: Seal, attempt: int) -> None:
        self._connect, self._seal, self._base = connect, seal, f"attempt/{attempt}/clock"
        self.offset = UNKNOWN
        self._closed = False
        self._answers = False

    def answer(self) -> None:
        """On the first node: answer the others until closed."""
        self.offset, self._answers = SAME, True
        threading.Thread(target=self._answer, name="resilient-clock-answers", daemon=True).start()

    def ask(self) -> None:
        """On another node: estimate the offset."""
        threading.Thread(target=self._ask, name="resilient-clock", daemon=True).start()

    def close(self, store: ControlStore) -> None:
        """Let the answering thread go. Raises StoreLost."""
        self._closed = True
        if self._answers:
            self._put(store, f"ask/{store.count(f'{self._base}/tickets')}", Moment(0.0))

    def _answer(self) -> None:
        with suppress(StoreLost):  # the beater says so
            store, ticket = self._connect(), 0
            while not self._closed:
                ticket += 1
                if store.until_set(f"{self._base}/ask/{ticket}", WAIT_S):
                    self._put(store, f"answer/{ticket}", Moment(time.time()))

    def _ask(self) -> None:
        pings = []
        with suppress(StoreLost, Refused):
            store = self._connect()
            for _ in range(PINGS):
                ticket = store.count(f"{self._base}/tickets")
                sent, answer = time.time(), f"{self._base}/answer/{ticket}"
                self._put(store, f"ask/{ticket}", Moment(sent))
                if not store.until_set(answer, ANSWER_S):
                    break
                received, message = time.time(), store.read(answer) or b""
                moment = self._seal.open(answer, message, Moment)
                pings.append(Ping(sent=sent, remote=moment.at, received=received))
        self.offset = offset(pings) or UNKNOWN

    def _put(self, store: ControlStore, name: str, moment: Moment) -> None:
        key = f"{self._base}/{name}"
        store.write(key, self._seal.close(key, moment))
