"""Nodes that ask to be taken in, and whether they still live."""

from resilient.agent.heartbeats import Heartbeats
from resilient.agent.roster import Roster
from resilient.model.membership import NodeCard


class Newcomers:
    """Those who have asked, in order, until they are members."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._cards: dict[str, NodeCard] = {}

    def look(self) -> bool:
        """Read who has asked since the last look; whether there is anybody new."""
        found = {card.node: card for card in self._roster.newcomers()}
        self._cards.update(found)
        return bool(found)

    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._cards)

    def alive(self, beats: Heartbeats) -> tuple[NodeCard, ...]:
        """Those whose heart has been heard and is not silent."""
        silent = beats.silent()
        return tuple(
            card
            for node, card in self._cards.items()
            if node not in silent and beats.count_of(node) >= 0
        )

    def admitted(self, names: tuple[str, ...]) -> None:
        """Forget those who are members now."""
        for name in names:
            self._cards.pop(name, None)
