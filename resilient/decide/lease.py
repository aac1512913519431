"""A node's lease: when it has to have killed its workers, and when others may call it lost.

    holder     renewal sent ────────────────► kill at ──► dead by
    observer       └─► beat seen to change ──────────────────────► lost at
                                                 limit - margin    limit

The holder counts from just before it sent the last renewal that it knows to have succeeded; an
observer from when it saw the beat change, which cannot be earlier. So a node is dead before it
is called lost, whatever is delayed in between, as long as one monotonic clock does not run ten
per cent faster than the other. This takes that a node starts no worker before its first renewal
has succeeded, and that its observers do not count from before that.
"""

import msgspec

MARGIN = 0.1  # of the limit: for clocks that run at different rates
KILL_S = 0.5  # from the first SIGKILL until every process is dead


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """All times in seconds on the monotonic clock of whoever asks."""

    limit_s: float  # RESILIENT_NODE_TIMEOUT_S: unchanged for so long, a beat's node is lost

    @property
    def length_s(self) -> float:
        """For how long a renewal lets the holder run workers."""
        return self.limit_s * (1.0 - MARGIN)

    def kill_at(self, renewal_sent: float) -> float:
        """When the holder begins to kill its workers, unless it renews before."""
        return max(renewal_sent, self.dead_by(renewal_sent) - KILL_S)

    def dead_by(self, renewal_sent: float) -> float:
        """When all of its workers are dead."""
        return renewal_sent + self.length_s

    def lost_at(self, changed_seen: float) -> float:
        """When an observer that saw the beat change then, and not since, calls the node lost."""
        return changed_seen + self.limit_s
