"""How often nodes beat, and for how long one has been silent.

In each period every node sets its own key, and some read others' (`decide.watching`). A beat is a
counter, judged by the reader's own monotonic clock: clocks of different machines are never
compared.
"""

from math import inf

import msgspec

from resilient.decide.watching import operations

FLOOR_S = 0.25  # no period is shorter
BEATS_PER_LIMIT = 12  # of a node in the time after which it would be lost
OPERATIONS_PER_S = 1800.0  # of all nodes together, at most
_LATE_S = 0.5  # by which a healthy node's beat may be late, on a machine under full load


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """The last new beat of a node, as its observer knows it."""

    count: int
    changed_at: float  # seconds, the observer's monotonic clock
    asked_at: float = -inf  # when the last question was asked that was answered


def period_s(nodes: int, limit_s: float) -> float:
    """Seconds between two beats of a node, in a group that calls one lost after `limit_s`.

    A twelfth of the limit, but never under FLOOR_S, and so long that the store has to bear no
    more than OPERATIONS_PER_S. This last bound is the strongest: many nodes need a longer limit,
    see `least_limit_s`.
    """
    bearable = operations(nodes) / OPERATIONS_PER_S
    return max(FLOOR_S, limit_s / BEATS_PER_LIMIT, bearable)


def least_limit_s(nodes: int) -> float:
    """The shortest limit, in seconds, at which no healthy one of so many nodes is called lost.

    Two periods can pass between two changes that a reader sees: one that reads just before each
    beat misses one when that is late.
    """
    return 2 * period_s(nodes, 0.0) + _LATE_S


def heard(pulse: Pulse, count: int, now: float, *, asked: float | None = None) -> Pulse:
    """The pulse after a beat was read: `asked` just before the question, `now` with the answer.

    One that was known before, or is even older (a message sent again), is no sign of life.
    """
    if count > pulse.count:
        return Pulse(count=count, changed_at=now, asked_at=now)
    return Pulse(
        count=pulse.count,
        changed_at=pulse.changed_at,
        asked_at=max(pulse.asked_at, now if asked is None else asked),
    )


def silent_s(pulse: Pulse, now: float) -> float:
    """For how many seconds there was no new beat, as far as was asked.

    An observer that could not read for a while knows nothing: its time does not count.
    """
    return max(0.0, min(now, pulse.asked_at) - pulse.changed_at)
