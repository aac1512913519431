"""The fence: what an attempt has committed, and that a superseded one commits nothing more.

One key holds both the number of the attempt that may commit and its last commit, so that raising
the fence and committing exclude each other: whoever loses the compare-and-set looks again.
"""

import msgspec

from resilient.agent.control_store import ControlStore
from resilient.agent.sealing import Seal
from resilient.model.errors import Unavailable

KEY = "fence"


class Superseded(Unavailable):
    """A later attempt has begun: what this one wanted to commit does not count."""


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt that may commit, and the last commit of any attempt."""

    attempt: int
    committed: str = ""  # e.g. the name of a checkpoint
    committed_in: int = -1  # the attempt that did


class Fence:
    """Reads and changes it. Every method raises StoreLost."""

    def __init__(self, store: ControlStore, seal: Seal) -> None:
        self._store, self._seal = store, seal

    def raise_to(self, attempt: int) -> None:
        """From now on no earlier attempt commits anything."""
        while True:
            message, now = self._read()
            if now is not None and now.attempt >= attempt:
                return
            before = now or Fenced(attempt=-1)
            if self._replaced(message, msgspec.structs.replace(before, attempt=attempt)):
                return

    def commit(self, attempt: int, what: str) -> None:
        """Commit on behalf of an attempt. Raises Superseded when that is over."""
        while True:
            message, now = self._read()
            if now is None or now.attempt != attempt:
                at = "none" if now is None else str(now.attempt)
                raise Superseded(f"attempt {attempt} is over (the fence stands at {at})")
            new = Fenced(attempt=attempt, committed=what, committed_in=attempt)
            if self._replaced(message, new):
                return

    def last(self) -> Fenced | None:
        """What was committed last; None before the first attempt."""
        return self._read()[1]

    def _read(self) -> tuple[bytes, Fenced | None]:
        message = self._store.read(KEY)
        return message or b"", self._seal.opened(KEY, message, Fenced)

    def _replaced(self, message: bytes, new: Fenced) -> bool:
        text = self._seal.close(KEY, new)
        return self._store.replace(KEY, text, message) == text.encode()
