"""A run on several nodes, as the driver sees it: join, meet, notice, agree.

Where the store that torch's rendezvous uses cannot carry a control plane, there is none of this
and nodes restart as under torchrun.
"""

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from resilient.agent.admission import Admission
from resilient.agent.attempt import Attempt, Outcome
from resilient.agent.control_store import StoreLost
from resilient.agent.decided_rendezvous import (
    Met,
    node_limits,
    own_address,
    shared_store,
    store_for_workers,
)
from resilient.agent.opening import RECYCLE, NotTakenIn, is_first_view, join, meet, peers_over
from resilient.agent.peers import PeerEvent, Peers
from resilient.agent.recorder import say
from resilient.agent.reports import fitting
from resilient.agent.session import Session
from resilient.agent.torch_seam import SeamAgent
from resilient.decide.membership import RECYCLE as NEEDS_RECYCLING
from resilient.decide.membership import apply
from resilient.model.decision import PastAttempt
from resilient.model.evidence import AttemptEvidence
from resilient.model.membership import (
    GroupCase,
    GroupDecision,
    NodeReport,
    NodeState,
    Trouble,
    Verdict,
    View,
)
from resilient.sense.machine import boot_id
from resilient.sense.own_sockets import listens_on

__all__ = ["RECYCLE", "JoinInstead", "Nodes", "NotTakenIn", "StoreLost"]

LEAVE_S = 10.0  # for how long the store's host stays for the others at the end
DONE_S = 0.5  # between two looks for a decision while nobody has said that the attempt is over
STORE_LOST = 69  # exit code


class JoinInstead(Exception):
    """A change of plan: the run goes on already, so this node has to ask to be taken in."""


class Nodes:
    """This node's part in a run on several nodes."""

    def __init__(
        self,
        session: Session,
        agent: SeamAgent,
        *,
        propose: Callable[[GroupCase], GroupDecision],
        kill: Callable[[], None],
        on_preemption: Callable[[Attempt, float], None],
    ) -> None:
        """`kill` ends this node's workers at once; it is called on another thread.

        `on_preemption` is called when the platform takes back this node or another one.
        """
        self._session, self._agent, self._propose, self._kill = session, agent, propose, kill
        self._on_preemption = on_preemption
        self._handler: Any = agent.group.spec.rdzv_handler
        self._lives = 0  # of this agent: one that was fenced comes back under a new name
        self._peers: Peers | None = None
        self._next: View | None = None  # as decided
        self._lost = False  # the store
        self._fenced_s = 0.0  # for how long it did not answer when our lease ran out
        self._refused: dict[str, int] = {}
        self._admission = Admission(session)

    @property
    def peers(self) -> Peers:
        """The connection to the others. Raises Bug before it is open."""
        assert self._peers is not None
        return self._peers

    @property
    def decided(self) -> bool:
        """Whether the next attempt's members are known, so that torch need not find them."""
        return self._next is not None

    def open(self) -> bool:
        """Connect to the store that the nodes share; False where there is none yet, or never."""
        base = shared_store(self._handler)
        if self._peers is not None or not isinstance(base, TCPStore):
            return self._peers is not None
        self._peers = peers_over(
            base,
            self._session,
            self._agent,
            lives=self._lives,
            limits=node_limits(self._handler),
            kill=self._kill,
            abandon=self._abandon,
        )
        return True

    def _abandon(self) -> None:
        """On another thread: our loop is stuck in a store that will never answer."""
        if not self._session.library:  # the keeper ends what is left
            say("the store that the nodes share does not answer any more; ending at once")
            os._exit(STORE_LOST)

    # Coming in

    def goes_on(self) -> bool:
        """Whether the run has begun, so that this node has to ask to be taken in."""
        return self.peers.roster.current() is not None

    def met(self) -> bool:
        """Whether this node takes part in an attempt, or knows in which it will."""
        return self._peers is not None and (self.decided or self._peers.view.attempt >= 0)

    def look(self) -> None:
        """While torch's rendezvous waits: raises JoinInstead when the run began without us."""
        if self._peers is not None and self.goes_on():
            raise JoinInstead

    def meet_first(self) -> None:
        """After torch's first rendezvous: learn who takes part.

        Raises Misuse when the nodes run different software, JoinInstead when the run is going on.
        """
        if not self.open():
            return
        group = self._agent.group
        if self.goes_on() and not is_first_view(self.peers):
            raise JoinInstead
        rank, size = group.group_rank or 0, group.group_world_size or 1
        self._attend(meet(self.peers, rank, size, node_limits(self._handler)[2]))

    def join(self) -> tuple[int, list[PastAttempt]]:
        """Ask to be taken in, wait for it, and return the number of the attempt that has us and
        what went before. Raises what `opening.join` does."""
        self._next, past = join(self.peers, self._session, self._patience_s())
        return self._next.attempt, past

    def _patience_s(self) -> float:
        """For how long a node that was just decided upon may take to do its part."""
        return 3 * self._session.policy.node_timeout_s

    def take_part_again(self) -> None:
        """After our lease ran out: the workers are dead, but nobody may know yet that we were away.

        Raises StoreLost where the store does not answer now either.
        """
        if not self.peers.reachable():
            raise StoreLost("no answer within the time of the lease")
        self._fenced_s = self.peers.unanswered_s
        self.peers.beat_again()

    def come_back(self) -> tuple[int, list[PastAttempt]]:
        """The group went on without us: we ask as a newcomer, over new connections.

        Raises StoreLost.
        """
        with suppress(StoreLost):  # by the old connections
            self.peers.roster.leave(self.peers.me.node)
        self.peers.close()
        self._lives += 1
        self._peers, self._next = None, None
        self.open()
        return self.join()

    # An attempt

    def rendezvous(self) -> Met:
        """The place of this node in the attempt that was decided upon, and its workers' store."""
        view, peers = self._next, self.peers
        assert view is not None
        rank = view.names.index(peers.me.node)
        if rank == 0:
            store, host, port = store_for_workers(self._handler, own_address(self._handler))
            peers.open_attempt(view, host, port)
        else:
            host, port = peers.roster.store_of(view.attempt, self._patience_s())
            store = TCPStore(host, port, is_master=False, wait_for_workers=False)
        self._next = None
        self._attend(view)
        return Met(store, rank, len(view.members), host, port)

    def _attend(self, view: View) -> None:
        self.peers.attend(view, self._propose)
        self._admission = Admission(self._session)
        is_first = view.names[0] == self.peers.me.node
        self._session.recorder.write_for(None if is_first else self._session.node)
        self._session.recorder.event("view", attempt=view.attempt, nodes=list(view.names))

    def fileno(self) -> int:
        """Readable when `outcome` should be asked."""
        return self.peers.fileno()

    def outcome(self, attempt: Attempt, now: float) -> Outcome | None:
        """What the others make of the attempt; takes in newcomers when that costs least.

        Raises StoreLost.
        """
        self._tell_refused()
        event = self.peers.event()
        if event is None and self._admission.is_due(self.peers, attempt, now):
            self.peers.raise_alarm(Trouble.JOINING)
            event = PeerEvent.ALARM
        if event is PeerEvent.STORE_LOST:
            raise StoreLost("the store's host does not answer")
        if event is PeerEvent.FENCED:
            return Outcome.FENCED
        if event is not PeerEvent.ALARM:
            return None
        if self.trouble() is Trouble.PREEMPTED:
            self._on_preemption(attempt, now)
            return None
        return Outcome.PEERS

    def _tell_refused(self) -> None:
        refused = self.peers.refused()
        if refused != self._refused:
            if not self._refused:
                say(
                    "refused a message in the rendezvous store that is not from this run's agents; "
                    "who can reach that store can disturb the run"
                )
            self._refused = refused
            self._session.recorder.event("refused", **refused)

    def lose_store(self) -> None:
        """Ask the store nothing more, neither here nor in torch: it may never answer."""
        self._lost = True
        self._handler.shutdown = lambda: True

    # Its end

    def trouble(self) -> Trouble | None:
        """Why the attempt is over, in the words of who said so first."""
        alarm = self.peers.hear_alarm()
        return alarm.trouble if alarm is not None else None

    def alarm(self, trouble: Trouble) -> None:
        """Tell the others that the attempt is over."""
        silent_s = self._fenced_s if trouble is Trouble.FENCED else 0.0
        self.peers.raise_alarm(trouble, about=self.peers.me.node, silent_s=silent_s)

    def report(
        self,
        evidence: AttemptEvidence | None,
        *,
        state: NodeState = NodeState.DEAD,
        leaving: str = "",
        preempted: bool = False,
    ) -> None:
        """Publish how our part ended."""
        peers = self.peers
        if leaving == NEEDS_RECYCLING:
            peers.roster.condemn(boot_id(), peers.me.node)
        report = NodeReport(
            attempt=peers.view.attempt,
            node=peers.me.node,
            state=state,
            leaving=leaving,
            preempted=preempted,
            evidence=evidence,
        )
        peers.publish(fitting(report))

    def settle(self, meanwhile: Callable[[], None]) -> GroupDecision:
        """Wait for the decision. `meanwhile` is called at every look and may raise."""
        peers, said, poll = self.peers, "", select.poll()
        poll.register(peers.fileno(), select.POLLIN)
        poll.register(self._session.signals.fileno(), select.POLLIN)
        while True:
            meanwhile()
            event = peers.event()
            if event is PeerEvent.STORE_LOST:
                raise StoreLost("the store's host does not answer")
            if event is PeerEvent.FENCED:  # nothing runs here any more
                self.take_part_again()
            decision = peers.settle()
            if decision is not None:
                break
            if peers.waiting_for != said:
                said = peers.waiting_for
                self._session.recorder.event("waiting", what=said)
                if peers.ready:
                    say(said)
            poll.poll(1000 * (peers.look_again_s if peers.alarm is not None else DONE_S))
        self._take(decision)
        return decision

    def _take(self, decision: GroupDecision) -> None:
        self._session.recorder.event(
            "decision.read",
            attempt=decision.attempt,
            proposer=decision.proposer,
            action=decision.decision.action.value,
            digest=decision.digest,
        )
        peers = self.peers
        peers.newcomers.admitted(tuple(card.node for card in decision.change.add))
        if decision.change.verdict is Verdict.GO:
            view = apply(peers.view, decision.change)
            self._next = view if peers.me.node in view.names else None

    def close(self) -> None:
        """Take part no more. Where this process serves the store, it leaves last."""
        peers = self._peers
        if peers is None or self._lost:
            return
        base = shared_store(self._handler)
        with suppress(StoreLost):
            peers.roster.leave(peers.me.node)
            if isinstance(base, TCPStore) and listens_on(base.port):
                peers.wait_for_the_others(LEAVE_S)
        peers.close()
