"""How much may wait for a slow console or disk, and what happens beyond that.

A `Lane` leads to one slow thing (a console, the disk), a `Flow` is one channel's share
of it. Both only count; the bytes wait in the queue of the lane's writer thread. The
reader thread alone calls `admit` and `took`, the writer thread alone calls `wrote`, and
each counter has one writing thread, so that no lock is needed.

The rule when a flow's share is full:
- while the writer gets on, its channel is left unread (as a pipe straight to the slow
  thing would do), so nothing is lost to a thing that is merely slow;
- once the writer has not moved for `stall_s`, or the flow has been held up for longer
  than its allowance, bytes are dropped and counted until half of the share is free.
So a thing that blocks for ever delays a worker by `stall_s` once.
"""

import math
from time import monotonic

TAKE, WAIT, DROP = 0, 1, 2
ITEM = 128  # bytes that one queued item costs beside its data, roughly


class Flow:
    """One channel's share of a lane. Units: bytes, queue overhead included."""

    __slots__ = ("done", "dropping", "full_since", "lost", "opened", "put", "waited")

    def __init__(self) -> None:
        self.put = 0  # reader thread only
        self.done = 0  # writer thread only
        self.lost = 0  # data bytes dropped and not yet told of
        self.dropping = False
        self.full_since: float | None = None
        self.waited = 0.0  # seconds that this lane has held the channel up
        self.opened = monotonic()

    @property
    def queued(self) -> int:
        return self.put - self.done


class Lane:
    """The way to one slow thing.

    `share` and `total` bound the bytes that wait, per flow and altogether. `stall_s`:
    see above. `allowance_s` and `allowance_rate`: a flow may be held up for
    `allowance_s + allowance_rate * age` seconds altogether (unlimited by default).
    A lane that is not `running` never holds a channel up: nobody is writing yet.
    """

    def __init__(
        self,
        *,
        share: int = 8 << 20,
        total: int = 64 << 20,
        stall_s: float,
        allowance_s: float = math.inf,
        allowance_rate: float = 0.0,
    ) -> None:
        self.running = True
        self.progress_at = monotonic()
        self._share = share
        self._total = total
        self._stall_s = stall_s
        self._allowance_s = allowance_s
        self._allowance_rate = allowance_rate
        self._put = 0
        self._done = 0

    @property
    def queued(self) -> int:
        """Bytes that wait, overhead included; 0 means that all was written."""
        return self._put - self._done

    def fits(self, flow: Flow) -> bool:
        """Whether the flow's share and the lane have room for the next bytes."""
        return flow.queued < self._share and self.queued < self._total

    def admit(self, flow: Flow, now: float) -> int:
        """TAKE, WAIT (leave the channel unread for now) or DROP, for the next bytes."""
        if flow.dropping:
            if flow.queued > self._share // 2 or self.queued >= self._total:
                return DROP
            flow.dropping = False
        if self.fits(flow):
            if flow.full_since is not None:
                flow.waited += now - flow.full_since
                flow.full_since = None
            return TAKE
        if flow.full_since is None:
            flow.full_since = now
        held = now - flow.full_since
        allowed = self._allowance_s + self._allowance_rate * (now - flow.opened)
        stuck = now - max(flow.full_since, self.progress_at) >= self._stall_s
        if self.running and not stuck and flow.waited + held < allowed:
            return WAIT
        flow.waited += held
        flow.full_since = None
        flow.dropping = True
        return DROP

    def took(self, flow: Flow, data: bytes) -> None:
        """Reader thread: `data` was queued for the writer."""
        cost = len(data) + ITEM
        flow.put += cost
        self._put += cost

    def wrote(self, flow: Flow, data: bytes) -> None:
        """Writer thread: `data` was dealt with, written or not."""
        cost = len(data) + ITEM
        flow.done += cost
        self._done += cost
        self.progress_at = monotonic()
