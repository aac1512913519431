"""SIGUSR1 and SIGUSR2: passed on, once each, to every process of the run that catches them.

Schedulers send one of them as a notice before they take a node back; RESILIENT_PREEMPTION_SIGNAL
says which. Where nobody catches the signal and it is no notice, it ends the launcher, as it ends
torchrun.
"""

import os
import signal
from collections.abc import Callable, Container
from contextlib import suppress
from types import FrameType
from typing import Any

from resilient.sense.processes import catches, descendants

NUMBERS = (signal.SIGUSR1, signal.SIGUSR2)


class UserSignals:
    """Takes them in; what is done with them is the loop's business."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._before: dict[int, Any] = {}
        self._pending: list[int] = []

    def install(self, taken: Container[str]) -> None:
        """On the main thread. `taken`: names that --signals-to-handle gives another meaning."""
        for number in NUMBERS:
            if number.name not in taken:
                self._before[number] = signal.signal(number, self._handle)

    def remove(self) -> None:
        """Put the former handlers back."""
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._pending.append(number)
        self._wake()

    def take(self) -> list[int]:
        """The numbers of those that have come since the last call."""
        came, self._pending = self._pending, []
        return came

    def by_default(self, number: int) -> None:
        """Let a signal do what it would have done without us."""
        signal.signal(number, self._before.pop(number, None) or signal.SIG_DFL)
        os.kill(os.getpid(), number)


def pass_on(number: int, keep: Container[int]) -> int:
    """Send a signal to all descendants that catch it, except `keep`; returns to how many."""
    told = 0
    for process in descendants(os.getpid()):
        if process.pid not in keep and catches(process.pid, number):
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
                told += 1
    return told
