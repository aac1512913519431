"""The agent's conversation with one scribe process after another."""

import select
from abc import ABC, abstractmethod
from time import monotonic
from typing import Any

from resilient.act.output_wire import Head, Wire

TICK_S = 0.1


class Talk(ABC):
    """Sends what is to be sent and reads what comes; a subclass connects it.

    Our own epoll is what the agent's loop watches: its descriptor stays the same whichever
    scribe is behind it.
    """

    def __init__(self, epoll: select.epoll) -> None:
        self.run_dir: str | None = None
        self.notes: list[str] = []
        self.dropped_there = 0  # records lost, as the scribe last reported
        self.busy = False  # a parting scribe still gets on
        self.wire: Wire
        self._epoll = epoll
        self._watched = 0
        self._answers: dict[int, Any] = {}
        self._asked = 0

    @abstractmethod
    def revive(self) -> bool:
        """Replaces a scribe that has died; True when it did."""

    @abstractmethod
    def ended(self, number: int) -> None:
        """A channel is at its end."""

    def fileno(self) -> int:
        return self._epoll.fileno()

    def connect(self, wire: Wire) -> None:
        """From now on the other end of `wire` is our scribe."""
        self.disconnect()
        self.wire = wire
        self._watch()

    def disconnect(self) -> None:
        """Stops watching the scribe's wire."""
        if self._watched:
            self._epoll.unregister(self.wire.fileno())
            self._watched = 0

    def send(
        self,
        head: Head,
        payload: bytes = b"",
        *,
        fds: tuple[int, ...] = (),
        droppable: bool = False,
    ) -> None:
        """Never waits. What a successor is told anyway is not kept for it."""
        if droppable or not self.wire.closed:
            self.wire.send(head, payload, fds=fds, droppable=droppable)
            self._watch()

    def turn(self, timeout_s: float) -> None:
        """Reads what has come and sends what waits; waits up to `timeout_s` for either."""
        if self._epoll.poll(timeout_s):
            for message in self.wire.receive():
                self._heed(message.head)
        self.wire.flush()
        self._watch()

    def ask(self, question: Head, timeout_s: float) -> Any:
        """The scribe's answer, or that of a successor; None when it did not come in time."""
        deadline = monotonic() + timeout_s
        self._asked += 1
        number = self._asked
        asked: Wire | None = None
        while number not in self._answers:
            self.revive()
            if asked is not self.wire:
                asked = self.wire
                self.send(question | {"number": number})
            left = deadline - monotonic()
            self.turn(min(max(left, 0.0), TICK_S))
            if left <= 0:
                break
        answer = self._answers.get(number)
        self._answers.clear()
        return answer

    def _heed(self, head: Head) -> None:
        """One message of the scribe."""
        for number in head.get("ended", ()):
            self.ended(number)
        if "answer" in head:
            self._answers[head["answer"]] = head["value"]
        if "run_dir" in head:
            self.run_dir = head["run_dir"]
        if "note" in head:
            self.notes.append(head["note"])
        self.dropped_there = head.get("dropped", self.dropped_there)
        self.busy = self.busy or "busy" in head

    def _watch(self) -> None:
        """Keeps our epoll on what can happen next; a dead scribe's socket would spin."""
        wanted = select.EPOLLIN | (select.EPOLLOUT if self.wire.pending else 0)
        if self.wire.closed:
            self.disconnect()
        elif not self._watched:
            self._epoll.register(self.wire.fileno(), wanted)
            self._watched = wanted
        elif wanted != self._watched:
            self._epoll.modify(self.wire.fileno(), wanted)
            self._watched = wanted
