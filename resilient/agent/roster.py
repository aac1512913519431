"""Who takes part: cards, views and newcomers in the control store.

    attempt/N/card/<rank>   a member's card, in the first attempt only
    attempt/N/view          the members of attempt N, by group rank
    attempt/N/store         where the workers of attempt N meet, from the second on
    current                 the number of the attempt that runs
    run_id                  the name of the run, and of its directory
    join/<i>                the i-th newcomer's card
    left/<node>             that a node has ended its part in the run
    recycle/<boot id>       that a machine has a process which cannot be killed

Each is written by one node, or once by whoever is first.
"""

import time
from contextlib import suppress
from typing import TypeVar

import msgspec

from resilient.agent.control_store import ControlStore
from resilient.agent.sealing import Refused, Seal
from resilient.model.membership import NodeCard, View

T = TypeVar("T")
CARD_BYTES = 4 << 10
JOIN_LIMIT = 10_000  # newcomers in one run


class Current(msgspec.Struct, frozen=True):
    """The number of the attempt that runs, or was last decided upon."""

    attempt: int


class RunName(msgspec.Struct, frozen=True):
    """What the run is called."""

    run_id: str


class Left(msgspec.Struct, frozen=True):
    """That a node has ended its part."""

    node: str


class Address(msgspec.Struct, frozen=True):
    """Where a store for workers is served."""

    host: str
    port: int


class Roster:
    """Reads and writes them. Every method raises StoreLost."""

    def __init__(self, store: ControlStore, seal: Seal) -> None:
        self._store, self._seal = store, seal
        self._joins = 0  # slots of newcomers that were read

    def exchange(self, me: NodeCard, rank: int, size: int, timeout_s: float) -> View:
        """The view of the first attempt, from the cards of all its members.

        Rank 0 reads them and writes the view, so that the others read one key. Raises
        TimeoutError when a member shows no card, or rank 0 no view.
        """
        self._put(f"attempt/0/card/{rank}", me)
        deadline = time.monotonic() + timeout_s
        if rank == 0:
            cards = tuple(
                self._await(f"attempt/0/card/{other}", NodeCard, deadline) for other in range(size)
            )
            self.publish(View(attempt=0, members=cards))
        return self._await("attempt/0/view", View, deadline)

    def publish(self, view: View) -> None:
        """Write a view, and that its attempt is the current one."""
        self._put(f"attempt/{view.attempt}/view", view)
        self._put("current", Current(view.attempt))

    def current(self) -> int | None:
        """The number of the attempt that runs; None before the first."""
        found = self._get("current", Current)
        return found.attempt if found is not None else None

    def view(self, attempt: int) -> View | None:
        """The members of an attempt, where it has begun."""
        return self._get(f"attempt/{attempt}/view", View)

    def await_view(self, attempt: int, timeout_s: float) -> View:
        """The members of an attempt that is about to begin. Raises TimeoutError."""
        return self._await(f"attempt/{attempt}/view", View, time.monotonic() + timeout_s)

    def publish_store(self, attempt: int, host: str, port: int) -> None:
        """Say where the workers of an attempt meet."""
        self._put(f"attempt/{attempt}/store", Address(host, port))

    def store_of(self, attempt: int, timeout_s: float) -> tuple[str, int]:
        """Where the workers of an attempt meet: host and port. Raises TimeoutError."""
        key = f"attempt/{attempt}/store"
        found = self._await(key, Address, time.monotonic() + timeout_s)
        return found.host, found.port

    def run_id(self, own: str) -> str:
        """The run's name: the one that another node has put there first, else our own."""
        present = self._store.read("run_id")
        named = self._get("run_id", RunName) if present is not None else None
        if named is None:
            self._store.replace("run_id", self._seal.close("run_id", RunName(own)), present or b"")
            named = self._get("run_id", RunName)
        return named.run_id if named is not None else own

    def leave(self, node: str) -> None:
        """Say that a node asks nothing more of the store."""
        self._put(f"left/{node}", Left(node))

    def has_left(self, node: str) -> bool:
        """Whether a node has said so."""
        return self._get(f"left/{node}", Left) is not None

    def condemn(self, machine: str, node: str) -> None:
        """Say that a machine needs recycling: no node on it is taken in any more."""
        self._put(f"recycle/{machine}", Left(node))

    def is_condemned(self, machine: str) -> bool:
        """Whether somebody has said so."""
        return self._get(f"recycle/{machine}", Left) is not None

    def knock(self, me: NodeCard) -> None:
        """Ask to be taken in. Raises TimeoutError when there are too many newcomers."""
        for slot in range(JOIN_LIMIT):
            key = f"join/{slot}"
            message = self._seal.close(key, me)
            if self._store.replace(key, message) == message.encode():
                return
        raise TimeoutError(f"{JOIN_LIMIT} nodes have asked to join this run")

    def newcomers(self) -> tuple[NodeCard, ...]:
        """Cards of those that have asked since the last call."""
        found = []
        while self._joins < JOIN_LIMIT:
            message = self._store.peek(f"join/{self._joins}")
            if message is None:
                break
            with suppress(Refused):  # counted there
                found.append(self._seal.open(f"join/{self._joins}", message, NodeCard, CARD_BYTES))
            self._joins += 1
        return tuple(found)

    def _put(self, key: str, record: msgspec.Struct) -> None:
        self._store.write(key, self._seal.close(key, record))

    def _get(self, key: str, kind: type[T]) -> T | None:
        return self._seal.opened(key, self._store.read(key), kind)

    def _await(self, key: str, kind: type[T], deadline: float) -> T:
        while (found := self._get(key, kind)) is None:
            left = deadline - time.monotonic()
            if left <= 0 or not self._store.until_set(key, left):
                raise TimeoutError(f"no node wrote {key}")
        return found


def differing(cards: tuple[NodeCard, ...]) -> str:
    """What software differs between nodes, in words; "" where it is the same everywhere."""
    versions: dict[str, dict[str, list[str]]] = {}
    for card in cards:
        for name, version in card.versions:
            versions.setdefault(name, {}).setdefault(version, []).append(card.host)
    parts = []
    for name, hosts in sorted(versions.items()):
        if len(hosts) > 1:
            each = (f"{version} on {_some(on)}" for version, on in sorted(hosts.items()))
            parts.append(f"{name} is {', '.join(each)}")
    return "; ".join(parts)


def _some(hosts: list[str]) -> str:
    return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
