"""How far a node's clock is from the store's host's, from messages that went there and back.

    sent ─────► remote ─────► received        remote is read somewhere between the two others

Of several the one with the shortest way counts: its error is the smallest.
"""

from collections.abc import Iterable

import msgspec


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    """One message and its answer; seconds since the epoch."""

    sent: float  # this node's clock
    remote: float  # the other's clock, when it answered
    received: float  # this node's clock


class Offset(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of two clocks."""

    offset_s: float  # to add to this node's clock to get the other's
    uncertainty_s: float  # the true offset is at most this far away


def offset(pings: Iterable[Ping]) -> Offset | None:
    """The best estimate; None without a ping in which time went forward."""
    whole = [ping for ping in pings if ping.received >= ping.sent]  # else the clock was set back
    if not whole:
        return None
    best = min(whole, key=_round_trip)
    return Offset(
        offset_s=best.remote - (best.sent + best.received) / 2,
        uncertainty_s=_round_trip(best) / 2,
    )


def _round_trip(ping: Ping) -> float:
    return ping.received - ping.sent
