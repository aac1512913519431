"""When a node that waits to join is taken in: at a moment that costs least.

It comes in with any restart that happens anyway. A restart for its sake is made at once where no
rank has done an optimizer step yet, and after RESILIENT_JOIN_DELAY_S where steps would be lost.
"""

from resilient.agent.attempt import Attempt
from resilient.agent.peers import Peers
from resilient.agent.session import Session

LOOK_S = 1.0  # between two looks for newcomers


class Admission:
    """The first node of the group decides it; for one attempt."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._since: float | None = None  # when somebody was first seen to wait
        self._looked = 0.0

    def is_due(self, peers: Peers, attempt: Attempt, now: float) -> bool:
        """Whether the attempt is to end now for a newcomer. Raises StoreLost."""
        if not peers.is_mine_to_admit() or now - self._looked < LOOK_S:
            return False
        self._looked = now
        full = len(peers.view.members) >= peers.limits.max_nodes
        if full or not peers.look_for_newcomers():
            self._since = None
            return False
        if self._since is None:
            self._since = now
        steps = [worker.page.step for worker in attempt.workers.values()]
        nothing_lost = not any(steps) and self._session.hooks
        return nothing_lost or now - self._since >= self._session.policy.join_delay_s
