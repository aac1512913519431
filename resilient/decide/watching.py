"""Who listens to whose heartbeats.

Small groups    each node listens to the two before it, in the ring of group ranks
Large groups    the ring is cut into parts of about PART nodes; the first node of each part
                listens to the whole part before its own, the second node to the one before that;
                all of a part's beats are read at once. And every node listens to the one before
                it, but rarely.

So every node has two quick listeners, which are rarely lost with it, and whoever is left of a
group, however oddly it was chosen, notices in the end: among those lost there is one whose
successor in the ring is not.
"""

from typing import NamedTuple

RING = 128  # nodes up to which each listens to its predecessors
LISTENERS = 2  # of every node
PART = 64  # nodes, at least, in a part of a large group
RARELY = 10  # periods between two questions to the predecessor in a large group
TOGETHER = 3  # operations on the store that read any number of keys which are there


class Watch(NamedTuple):
    """Whom one node listens to."""

    often: tuple[str, ...]  # in every period
    rarely: tuple[str, ...] = ()  # in every RARELY-th


def watch(names: tuple[str, ...], me: str) -> Watch:
    """Whom `me` listens to among the members of a group, in the order of their group ranks.

    Raises ValueError when `me` is not one of them.
    """
    at, size = names.index(me), len(names)
    before = tuple(names[(at - back) % size] for back in range(1, min(LISTENERS, size - 1) + 1))
    if size <= RING:
        return Watch(often=before)
    parts = size // PART
    mine = next(part for part in range(parts) if at < _start(part + 1, parts, size))
    place = at - _start(mine, parts, size)
    if place >= LISTENERS:
        return Watch(often=(), rarely=before[:1])
    heard = (mine - 1 - place) % parts
    part = names[_start(heard, parts, size) : _start(heard + 1, parts, size)]
    return Watch(often=tuple(name for name in part if name != me), rarely=before[:1])


def _start(part: int, parts: int, size: int) -> int:
    return part * size // parts


def operations(size: int) -> float:
    """Operations on the store in one period, by all nodes of a group together."""
    if size <= RING:
        return float(size * (1 + min(LISTENERS, max(size - 1, 0))))
    return size + TOGETHER * LISTENERS * (size // PART) + size / RARELY
