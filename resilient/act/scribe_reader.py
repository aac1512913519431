"""Reads the workers' channels and hands their bytes on, in the order in which they came.

Order. Within a channel: exact. Between channels: epoll's edge-triggered ready list is
the order in which channels got their first unread byte, and each ready channel is read
once per round in that order. So output of two ranks comes out in the order written,
unless one of them wrote twice, before and after the other, between two rounds (tens of
microseconds; up to milliseconds where all CPUs are busy): then its bytes come together.

Lines. A line that was written in one piece is never cut by another rank's output, up to
4096 bytes on a pipe (as without us); on a terminal, where its bytes come within
`SETTLE_S`. An incomplete line is shown at once on a pipe, and after `SETTLE_S` on a
terminal.
"""

import os
import select
from collections.abc import Callable
from time import monotonic

from resilient.act.scribe_channel import Channel

READ = 64 << 10
PARKED_S = 0.05  # how often a channel held up by a slow lane is looked at again
RESCAN_S = 1.0  # all channels are read this often even without an event
SETTLE_S = 0.02  # a terminal takes and gives bytes in pieces, a moment apart


class Reader:
    """All channels that are not at their end. `on_end` is told of each that reaches it."""

    def __init__(self, epoll: select.epoll, on_end: Callable[[Channel], None]) -> None:
        self.channels: dict[int, Channel] = {}  # by descriptor
        self.parked = False  # whether a channel is being held up by a slow lane
        self._due = RESCAN_S
        self._ready: dict[int, Channel] = {}  # in the order in which they became ready
        self._epoll = epoll
        self._on_end = on_end
        self._scanned_at = monotonic()

    def add(self, channel: Channel) -> None:
        os.set_blocking(channel.fd, False)
        self.channels[channel.fd] = channel
        self._ready[channel.fd] = channel
        self._epoll.register(channel.fd, select.EPOLLIN | select.EPOLLET)

    def ready(self, fd: int, events: int) -> None:
        """Takes one event of epoll."""
        channel = self.channels.get(fd)
        if channel is not None:
            channel.hung_up = channel.hung_up or bool(events & (select.EPOLLHUP | select.EPOLLERR))
            self._ready.setdefault(fd, channel)

    def timeout(self) -> float:
        """Seconds until the next round is due, events aside."""
        return self._due

    @property
    def busy(self) -> bool:
        """Whether a channel is known to have, or may have, something to read."""
        return bool(self._ready)

    def rescan(self) -> None:
        """Reads every channel in the next round."""
        for fd, channel in self.channels.items():
            self._ready.setdefault(fd, channel)

    def round(self) -> None:
        """Reads every ready channel once."""
        now = monotonic()
        if now - self._scanned_at >= RESCAN_S:
            # Costs next to nothing, and a lost edge must not hang a worker.
            self._scanned_at = now
            self.rescan()
        self._due = RESCAN_S
        self.parked = False
        for channel in list(self._ready.values()):
            if channel.admitted(now):
                self._read(channel)
            else:
                self.parked = True
                self._due = min(self._due, PARKED_S)

    def _read(self, channel: Channel) -> None:
        """One read of one channel."""
        try:
            data = os.read(channel.fd, READ)
        except BlockingIOError:
            self._nothing_there(channel)
            return
        except OSError:  # EIO: the last process that had the terminal open is gone
            data = b""
        if not data:
            self.end(channel)
            return
        joined = channel.carry + data
        # A short read has emptied a pipe: a later byte makes a new event. Anything else
        # is read until nothing is left, and an incomplete line kept back until then.
        if len(data) < READ and not channel.pty and not channel.hung_up:
            del self._ready[channel.fd]
            cut = len(joined)
        else:
            self._due = 0.0
            cut = joined.rfind(b"\n") + 1
            if len(joined) - cut >= READ:
                cut = len(joined)
        channel.carry = joined[cut:]
        if cut:
            channel.settling_since = 0.0
            channel.deliver(joined[:cut])

    def _nothing_there(self, channel: Channel) -> None:
        if channel.carry and channel.pty:
            now = monotonic()
            channel.settling_since = channel.settling_since or now
            rest = channel.settling_since + SETTLE_S - now
            if rest > 0:
                self._due = min(self._due, rest)
                return
        del self._ready[channel.fd]
        carry, channel.carry = channel.carry, b""
        channel.settling_since = 0.0
        channel.deliver(carry)

    def end(self, channel: Channel) -> None:
        """Closes a channel: its worker sees a broken pipe if it still writes."""
        # The agent holds the same open file: closing alone would not unregister it.
        self._epoll.unregister(channel.fd)
        os.close(channel.fd)
        del self.channels[channel.fd]
        self._ready.pop(channel.fd, None)
        channel.finish()
        self._on_end(channel)
