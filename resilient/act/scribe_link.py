"""Starts the scribe process, replaces one that has died, and parts from the last.

What a successor must know is kept here: the run, and the read ends of all channels that
have not ended.
"""

import math
import os
import select
from time import monotonic

from resilient.act.channels import is_inherited, lift, same_output
from resilient.act.output_wire import Head, Wire
from resilient.act.scribe_spawn import let_go, spawn
from resilient.act.scribe_talk import TICK_S, Talk

REVIVE_AFTER_S = 1.0  # between two restarts: one that cannot live must not spin
CLOSE_LIMIT_S = 60.0
EXIT_S = 0.5  # from the last word to the end, unless a dead disk holds a thread


class Held:
    """A channel that is not at its end, as a scribe is told of it."""

    __slots__ = ("console", "head", "pty", "read_fd")

    def __init__(self, head: Head, read_fd: int) -> None:
        self.head = head
        self.read_fd = read_fd
        self.pty: bool = head["pty"]
        self.console: int | None = head["console"]


class Link(Talk):
    """One scribe after another. Raises OSError when the first cannot be started."""

    def __init__(self) -> None:
        epoll = select.epoll()
        super().__init__(select.epoll.fromfd(lift(os.dup(epoll.fileno()))))
        epoll.close()
        self.held: dict[int, Held] = {}  # by channel number
        self.run: Head | None = None  # the message that opened the run directory
        self._numbers = 0
        self._dropped_before = 0  # by earlier scribes
        self._revive_at = -math.inf
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
        return self._dropped_before + self.dropped_there + self.wire.dropped

    def hold(self, head: Head, read_fd: int) -> None:
        """Hands a new channel's read end over and keeps a hold on it."""
        self._numbers += 1
        head = head | {"number": self._numbers}
        self.held[self._numbers] = Held(head, read_fd)
        self.send(head, fds=(read_fd,))

    def ended(self, number: int) -> None:
        held = self.held.pop(number, None)
        if held is not None:
            os.close(held.read_fd)

    def revive(self) -> bool:
        """Starts another scribe if this one has died; True when it did."""
        now = monotonic()
        if now < self._revive_at or not self.wire.closed:
            return False
        self._revive_at = now + REVIVE_AFTER_S
        old, wire = self._process, self.wire
        old.kill()  # if it lives, deaf: two must not read the same channels
        let_go(old, TICK_S)
        dropped = self.dropped_there + wire.dropped
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
        self._dropped_before += dropped
        self.dropped_there = 0
        if self.run is not None:
            first = [self.run_dir] if self.run_dir else []
            self.send(self.run | {"candidates": first + self.run["candidates"]})
        for held in self.held.values():
            self.send(held.head, fds=(held.read_fd,))
        self.wire.give_droppable(wire.take_droppable())
        wire.close()
        return True

    def close(self, timeout_s: float) -> None:
        """Says goodbye and waits for the end, `timeout_s` beyond the last sign of progress."""
        self.revive()
        self.send({"do": "bye", "patience": timeout_s})
        limit = monotonic() + CLOSE_LIMIT_S
        deadline = monotonic() + timeout_s + TICK_S
        while not self.wire.closed and monotonic() < min(deadline, limit):
            self.busy = False
            self.turn(TICK_S)
            if self.busy:
                deadline = monotonic() + timeout_s + TICK_S
        ended = self.wire.closed
        self.disconnect()
        self.wire.close()
        self._epoll.close()
        for number in list(self.held):
            self.ended(number)
        let_go(self._process, EXIT_S if ended else 0.0)

    def _launch(self) -> None:
        self._process, sock = spawn()
        self.connect(Wire(sock))
        numbers = [number for number in (1, 2) if is_inherited(number)]
        same = len(numbers) == 2 and same_output(1, 2)
        numbers = numbers[:1] if same else numbers
        self.send({"do": "consoles", "numbers": numbers, "same": same}, fds=tuple(numbers))
