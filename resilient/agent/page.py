"""The page of memory that a worker writes and the agent reads. Layout: `model/protocol.py`."""

import mmap
import os
import struct

from resilient.model.evidence import Phase
from resilient.model.protocol import (
    PAGE_BASE,
    PAGE_BYTES,
    PAGE_FIRST_COLLECTIVE_NS,
    PAGE_FIRST_STEP_NS,
    PAGE_MAGIC,
    PAGE_MAGIC_VALUE,
    PAGE_PHASE,
    PAGE_STEPS,
)

_PHASES = tuple(Phase)


class Page:
    """What one worker tells without being asked: how far it is."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("resilient-page", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, PAGE_BYTES)
        self._map = mmap.mmap(self.fd, PAGE_BYTES, prot=mmap.PROT_READ)

    def _word(self, number: int) -> int:
        value: int = struct.unpack_from("<Q", self._map, number * 8)[0]
        return value

    @property
    def alive(self) -> bool:
        """Whether the bootstrap runs in this worker."""
        return self._word(PAGE_MAGIC) == PAGE_MAGIC_VALUE

    @property
    def phase(self) -> Phase:
        """How far the worker has come; START where the bootstrap does not run."""
        index = self._word(PAGE_PHASE)
        return _PHASES[index] if index < len(_PHASES) else Phase.START

    @property
    def first_step(self) -> int | None:
        """Absolute count after the first optimizer step of this life, where it is known."""
        return (self._word(PAGE_BASE) - 1) if self._word(PAGE_BASE) else None

    @property
    def step(self) -> int | None:
        """Absolute count of optimizer steps where it is known, else those of this life."""
        steps, first = self._word(PAGE_STEPS), self.first_step
        if not steps:
            return None
        return steps if first is None else first + steps - 1

    @property
    def first_collective_at(self) -> float | None:
        """Seconds since the epoch at which the first collective was issued."""
        return self._word(PAGE_FIRST_COLLECTIVE_NS) / 1e9 or None

    @property
    def first_step_at(self) -> float | None:
        """Seconds since the epoch at which the first optimizer step was done."""
        return self._word(PAGE_FIRST_STEP_NS) / 1e9 or None

    def close(self) -> None:
        """Give the memory back; the worker keeps its own mapping."""
        self._map.close()
        os.close(self.fd)
