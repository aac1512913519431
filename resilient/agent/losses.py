"""Members of an attempt that are lost, as this node and the others have observed.

    silent ─► told under attempt/N/lost/<node> ─► heard by whoever decides

Only those who listen to a node know when its last beat came. Their word holds for whoever reads
the same last beat in the store: the node has not beaten since.
"""

import time
from collections.abc import Iterable, Mapping
from itertools import accumulate

import msgspec

from resilient.agent.control_store import ControlStore
from resilient.agent.heartbeats import BEAT_BYTES, Beat, beat_key
from resilient.agent.sealing import Seal
from resilient.model.membership import LostNode, View

LOSS_BYTES = 1 << 10


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """That a node is lost, in the words of one that listened to it."""

    node: str
    count: int  # its last beat
    silent_s: float  # for how long that was the last one


class Losses:
    """In one attempt. Every method that asks the store raises StoreLost."""

    def __init__(self, store: ControlStore, seal: Seal, view: View) -> None:
        self._store, self._seal, self._attempt = store, seal, view.attempt
        firsts = accumulate((card.nproc for card in view.members), initial=0)
        self._members = {c.node: (c, first) for c, first in zip(view.members, firsts, strict=False)}
        self._told: set[str] = set()
        self._heard: dict[str, float] = {}

    def is_member(self, node: str) -> bool:
        """Whether a node takes part in this attempt."""
        return node in self._members

    def tell(self, silent: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Say who is silent, once each: for how many seconds, and what its last beat was."""
        for node, seconds in silent.items():
            if node not in self._told and node in self._members:
                self._told.add(node)
                message = Silence(node=node, count=counts[node], silent_s=round(seconds, 3))
                self._store.write(self._key(node), self._seal.close(self._key(node), message))

    def hear(self, missing: Iterable[str]) -> None:
        """Ask what others have said of members that are missed."""
        for node in missing:
            message = self._store.peek(self._key(node))
            said = self._seal.opened(self._key(node), message, Silence, LOSS_BYTES)
            if said is not None:
                self.heed(said)

    def heed(self, said: Silence) -> None:
        """Believe what was said of a node, if it has not beaten since."""
        if said.node not in self._heard and said.node in self._members:
            message = self._store.peek(beat_key(said.node))
            beat = self._seal.opened(beat_key(said.node), message, Beat, BEAT_BYTES)
            if beat is not None and beat.count == said.count:
                self._heard[said.node] = said.silent_s

    def known(self, silent: Mapping[str, float]) -> dict[str, LostNode]:
        """All members that are lost: those whom we know to be silent, and those heard of."""
        seconds = {**self._heard, **silent}
        return {n: self._lost(n, s) for n, s in seconds.items() if n in self._members}

    def _lost(self, node: str, seconds: float) -> LostNode:
        card, first = self._members[node]
        return LostNode(
            node=node,
            host=card.host,
            ranks=tuple(range(first, first + card.nproc)),
            silent_s=round(seconds, 3),
            last_at=time.time() - seconds,
        )

    def _key(self, node: str) -> str:
        return f"attempt/{self._attempt}/lost/{node}"
