"""Signals from outside, taken in as torchrun does, but acted upon at a place of our choosing.

torch raises `SignalException` out of its handler, wherever the agent happens to be. That is
right while it waits in the rendezvous or the exit barrier, and wrong in the middle of stopping
workers: there the signal is noted and the loop is woken.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from resilient.agent.torch_seam import SignalException
from resilient.agent.user_signals import UserSignals

ECHO_S = 0.5  # the same signal within this time is the same wish, delivered twice


class Signals:
    """Handlers for the signals that torchrun handles, for as long as the agent runs."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, Any] = {}
        self._interruptible = False
        self.installed = False
        self.first: int | None = None  # number of the first signal
        self._first_mono = 0.0
        self._again = False
        self.user = UserSignals(self._wake)

    def install(self, names: Sequence[str]) -> list[str]:
        """Install the handlers; returns what could not be handled and why."""
        self.installed = True
        if threading.current_thread() is not threading.main_thread():
            return ["signals: the agent runs on a thread that is not the main one"]
        problems = []
        for name in names:
            try:
                number = getattr(signal, name)
                self._before[number] = signal.signal(number, self._handle)
            except (AttributeError, ValueError, OSError) as error:
                problems.append(f"signal {name}: {error}")
        return problems

    def remove(self) -> None:
        """Put the former handlers back."""
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before.clear()
        self.user.remove()
        os.close(self._read)
        os.close(self._write)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first, self._first_mono = number, now
        elif number != self.first or now - self._first_mono > ECHO_S:
            self._again = True
        self._wake()
        if self._interruptible:
            raise self.exception()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full: it is readable already
            os.write(self._write, b"s")

    def exception(self) -> SignalException:
        """The exception by which torch's agent leaves after a signal."""
        assert self.first is not None
        name = signal.Signals(self.first)
        return SignalException(f"Process {os.getpid()} got signal: {self.first}", sigval=name)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """While inside, a signal raises `SignalException` at once: for waits in torch's code."""
        if self.first is not None:
            raise self.exception()
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    def hurry(self) -> bool:
        """Whether somebody has asked a second time: then nothing waits any longer."""
        return self._again

    def fileno(self) -> int:
        """Readable when a signal has come."""
        return self._read

    def clear(self) -> None:
        """Forget the wake-ups, not the signal."""
        with suppress(BlockingIOError):
            while os.read(self._read, 64):
                pass
