"""The agent's connection to its scribe process, and how a new one takes over.

What a successor must know is kept here: the consoles, the run, and the read ends of all
channels that have not ended.
"""

import math
import os
import select
from time import monotonic
from typing import Any

from resilient.act.channels import is_inherited, lift, same_output
from resilient.act.output_wire import Head, Wire
from resilient.act.scribe_spawn import let_go, spawn

REVIVE_AFTER_S = 1.0  # between two restarts: one that cannot live must not spin
CLOSE_LIMIT_S = 60.0
EXIT_S = 0.5  # from the last word to the end, unless a dead disk holds a thread
_TICK_S = 0.1


class Held:
    """A channel that is not at its end, as a scribe is told of it."""

    __slots__ = ("console", "head", "pty", "read_fd")

    def __init__(self, head: Head, read_fd: int) -> None:
        self.head = head
        self.read_fd = read_fd
        self.pty = bool(head["pty"])
        self.console: int | None = head["console"]


class Link:
    """One scribe after another. Raises OSError when the first cannot be started."""

    def __init__(self) -> None:
        self.held: dict[int, Held] = {}  # by channel number
        self.run: Head | None = None  # the message that opened the run directory
        self.run_dir: str | None = None
        self.notes: list[str] = []
        # Our own, so that the descriptor stays the same whichever scribe is behind it.
        epoll = select.epoll()
        self._epoll = select.epoll.fromfd(lift(os.dup(epoll.fileno())))
        epoll.close()
        self._dropped_before = 0  # by earlier scribes
        self._dropped_there = 0  # by this one, as last reported
        self._answers: dict[int, Any] = {}
        self._asked = 0
        self._busy = False
        self._revive_at = -math.inf
        self._watched = 0
        try:
            self._launch()
        except OSError:
            self._epoll.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def dropped(self) -> int:
        return self._dropped_before + self._dropped_there + self._wire.dropped

    def fileno(self) -> int:
        return self._epoll.fileno()

    def send(
        self,
        head: Head,
        payload: bytes = b"",
        *,
        fds: tuple[int, ...] = (),
        droppable: bool = False,
    ) -> None:
        """Never waits. What a successor is told anyway is not kept for it."""
        if droppable or not self._wire.closed:
            self._wire.send(head, payload, fds=fds, droppable=droppable)
            self._watch()

    def hold(self, held: Held) -> None:
        """Hands the channel's read end over and keeps a hold on it."""
        self.held[held.head["number"]] = held
        self.send(held.head, fds=(held.read_fd,))

    def turn(self, timeout_s: float) -> None:
        """Reads what has come and sends what waits; waits up to `timeout_s` for either."""
        if self._epoll.poll(timeout_s):
            for message in self._wire.receive():
                self._heed(message.head)
        self._wire.flush()
        self._watch()

    def ask(self, question: Head, timeout_s: float) -> Any:
        """The scribe's answer, or that of a successor; None when it did not come in time."""
        deadline = monotonic() + timeout_s
        self._asked += 1
        number = self._asked
        asked: Wire | None = None
        while number not in self._answers:
            self.revive()
            if asked is not self._wire:
                asked = self._wire
                self.send(question | {"number": number})
            left = deadline - monotonic()
            self.turn(min(max(left, 0.0), _TICK_S))
            if left <= 0:
                break
        answer = self._answers.get(number)
        self._answers.clear()
        return answer

    def revive(self) -> bool:
        """Starts another scribe if this one has died; True when it did."""
        if not self._wire.closed or monotonic() < self._revive_at:
            return False
        self._revive_at = monotonic() + REVIVE_AFTER_S
        old, wire = self._process, self._wire
        old.kill()  # if it lives, deaf: two must not read the same channels
        let_go(old, _TICK_S)
        try:
            self._launch()
        except OSError as error:
            self.notes.append(f"the output process cannot be restarted: {error.strerror}")
            return False
        ended = "" if old.returncode is None else f" (exit status {old.returncode})"
        self.notes.append(
            f"the output process {old.pid} ended early{ended} and was replaced; "
            "what it held in memory is lost"
        )
        self._dropped_before += self._dropped_there + wire.dropped
        self._dropped_there = 0
        if self.run is not None:
            first = [self.run_dir] if self.run_dir else []
            self.send(self.run | {"candidates": first + self.run["candidates"]})
        for held in self.held.values():
            self.send(held.head, fds=(held.read_fd,))
        self._wire.give_droppable(wire.take_droppable())
        wire.close()
        return True

    def close(self, timeout_s: float) -> None:
        """Says goodbye and waits for the end, `timeout_s` beyond the last sign of progress."""
        if self.held:
            self.revive()
        self.send({"do": "bye", "patience": timeout_s})
        limit = monotonic() + CLOSE_LIMIT_S
        deadline = monotonic() + timeout_s + _TICK_S
        while not self._wire.closed and monotonic() < min(deadline, limit):
            self._busy = False
            self.turn(_TICK_S)
            if self._busy:
                deadline = monotonic() + timeout_s + _TICK_S
        ended = self._wire.closed
        self._wire.close()
        self._epoll.close()
        self._watched = 0
        for held in self.held.values():
            os.close(held.read_fd)
        self.held.clear()
        let_go(self._process, EXIT_S if ended else 0.0)

    def _launch(self) -> None:
        self._process, sock = spawn()
        self._wire = Wire(sock)
        self._watched = 0
        numbers = [number for number in (1, 2) if is_inherited(number)]
        same = len(numbers) == 2 and same_output(1, 2)
        numbers = numbers[:1] if same else numbers
        self.send({"do": "consoles", "numbers": numbers, "same": same}, fds=tuple(numbers))

    def _heed(self, head: Head) -> None:
        """One message of the scribe."""
        for number in head.get("ended", ()):
            held = self.held.pop(number, None)
            if held is not None:
                os.close(held.read_fd)
        if "answer" in head:
            self._answers[head["answer"]] = head["value"]
        if "run_dir" in head:
            self.run_dir = head["run_dir"]
        if "note" in head:
            self.notes.append(head["note"])
        self._dropped_there = head.get("dropped", self._dropped_there)
        self._busy = self._busy or "busy" in head

    def _watch(self) -> None:
        """Keeps our epoll on what can happen next; a dead scribe's socket would spin."""
        wire = self._wire
        wanted = select.EPOLLIN | (select.EPOLLOUT if wire.pending else 0)
        if wire.closed:
            wanted = 0
        if wanted == self._watched:
            return
        if not self._watched:
            self._epoll.register(wire.fileno(), wanted)
        elif not wanted:
            self._epoll.unregister(wire.fileno())
        else:
            self._epoll.modify(wire.fileno(), wanted)
        self._watched = wanted
