"""The page of memory that worker and agent share; the numbers are those of model/protocol.py."""

from __future__ import annotations

from . import libc

BYTES = 4096
MAGIC, PHASE, STEPS, STEP_MONO_NS, BASE, FIRST_COLLECTIVE_NS, FIRST_STEP_NS = range(7)
MAGIC_VALUE = 0x52524E5031
START, LOAD, STEP, TEARDOWN = range(4)


class Page:
    """Words that the agent reads while this process writes them.

    `words` is a plain list where there is nothing to share: no page came, or this is a forked
    child, whose steps are not the worker's.
    """

    words: memoryview[int] | list[int]

    def __init__(self) -> None:
        self.words = [0] * (BYTES // 8)

    def attach(self, fd: int) -> None:
        """Share the page behind `fd`. What was written so far is written there. Raises OSError."""
        shared = libc.map_words(fd, BYTES)
        shared[PHASE] = self.words[PHASE]
        shared[MAGIC] = MAGIC_VALUE
        self.words = shared

    def detach(self) -> None:
        """From here on write to memory of our own."""
        self.words = list(self.words)

    def reach(self, phase: int) -> None:
        """Note how far the worker has come; it never goes back."""
        self.words[PHASE] = max(phase, self.words[PHASE])
