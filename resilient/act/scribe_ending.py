"""When the scribe may end, and what it gives up then."""

from collections.abc import Callable
from time import monotonic

from resilient.act.scribe_console import Console
from resilient.act.scribe_disk import Disk
from resilient.act.scribe_flow import Lane
from resilient.act.scribe_reader import Reader

ORPHAN_STALL_S = 2.0  # without an agent: a console or disk blocked this long is given up


class Ending:
    """Knows of a goodbye (the agent has finished) or an orphan's lot (the agent is gone).

    After a goodbye what is there is read once more, then the channels are closed; without
    an agent its workers are heard until all have ended. Then all that is queued is
    written, as long as the console or the disk it waits for gets on.
    """

    def __init__(self, reader: Reader, disk: Disk, consoles: Callable[[], list[Console]]) -> None:
        self.since = 0.0  # monotonic seconds; 0: nobody wants to end yet
        self._goodbye = False
        self._patience = ORPHAN_STALL_S
        self._reader = reader
        self._disk = disk
        self._consoles = consoles

    def say_goodbye(self, patience_s: float) -> None:
        self._goodbye = True
        self._patience = patience_s
        self.since = monotonic()
        self._reader.rescan()
        self._disk.hurry.set()

    def orphaned(self) -> None:
        self.since = self.since or monotonic()

    def moved_since(self, at: float) -> bool:
        """Whether a console or the disk has taken something since then."""
        lanes = [console.lane for console in self._consoles()]
        return any(lane.progress_at > at for lane in [*lanes, self._disk.logs, self._disk.rest])

    def reached(self) -> bool:
        """Whether there is nothing left to do, or to wait for."""
        if not self.since:
            return False
        now = monotonic()
        if self._reader.channels:
            if not self._goodbye:
                self.since = now
                return False
            if self._reader.busy and now - self.since < self._patience:
                return False
            for channel in list(self._reader.channels.values()):
                self._reader.end(channel)
        waiting: list[Lane] = [c.lane for c in self._consoles() if c.lane.queued]
        if not self._disk.idle:
            waiting += [self._disk.logs, self._disk.rest]
        moved = max((lane.progress_at for lane in waiting), default=0.0)
        return not waiting or now - max(moved, self.since) > self._patience
