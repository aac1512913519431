"""Who lives: our own heartbeats, those of the nodes to whom we listen, and what is told of losses.

attend ─► listen ─► silent? ─► told to all ─► heard by whoever decides ─► lost
"""

from collections.abc import Callable, Iterable

from resilient.agent.control_store import ControlStore
from resilient.agent.heartbeats import Heartbeats
from resilient.agent.losses import Losses
from resilient.agent.sealing import Seal
from resilient.decide.watching import Watch, watch
from resilient.model.membership import LostNode, View


class Vigil:
    """One node's. Methods that ask the store raise StoreLost."""

    def __init__(
        self, new_beats: Callable[[int], Heartbeats], store: ControlStore, seal: Seal, me: str
    ) -> None:
        """`new_beats` makes heartbeats that go on after the beat of a number."""
        self._new_beats, self._store, self._seal, self._me = new_beats, store, seal, me
        self.beats = new_beats(0)
        self._view = View(attempt=-1, members=())
        self._watch = Watch(often=())
        self._more: frozenset[str] = frozenset()
        self._losses = Losses(store, seal, self._view)

    def beat_again(self) -> None:
        """After a fence, once nothing runs here any more: take part again."""
        self.beats = self._new_beats(self.beats.count)
        self.beats.begin()
        self.listen(self._more)

    def attend(self, view: View, more: Iterable[str]) -> None:
        """Listen to whom we have to among the members of an attempt, and to some more nodes."""
        self._view = view
        self._watch = watch(view.names, self._me)
        self._losses = Losses(self._store, self._seal, view)
        self.listen(more)

    def listen(self, more: Iterable[str]) -> None:
        """Listen to these nodes besides those to whom we have to."""
        self._more = frozenset(more) - {self._me}
        often = tuple(sorted({*self._watch.often, *self._more}))
        self.beats.watch(self._watch._replace(often=often), group=len(self._view.members))

    def silent(self) -> dict[str, float]:
        """Members that we know to be lost, and seconds since their last beats; the others are
        told."""
        silent = self.beats.silent()
        members = {node: silent[node] for node in silent if self._losses.is_member(node)}
        self._losses.tell(members, {node: self.beats.count_of(node) for node in members})
        return members

    def lost(self) -> dict[str, LostNode]:
        """All members that are lost, as far as we know or have heard."""
        return self._losses.known(self.silent())

    def hear(self, missing: Iterable[str]) -> None:
        """Ask what others have said of members that are missed."""
        self._losses.hear(missing)
