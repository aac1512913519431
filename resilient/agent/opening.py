"""How a node comes into a run on several nodes: it meets the others first, or it joins later."""

import time
from collections.abc import Callable

import torch
from torch.distributed import TCPStore, is_nccl_available  # type: ignore[attr-defined]

from resilient import __version__
from resilient.agent.control_store import TorchControlStore, notice_silence
from resilient.agent.peers import Peers
from resilient.agent.roster import differing
from resilient.agent.sealing import Seal
from resilient.agent.session import Session
from resilient.agent.torch_seam import SeamAgent
from resilient.model.decision import PastAttempt
from resilient.model.errors import Misuse
from resilient.model.membership import NodeCard, NodeLimits, Verdict, View
from resilient.sense.machine import boot_id

RECYCLE = 70  # exit code: restart this machine
LOOK_S = 0.5  # between two looks for a decision that takes us in


class NotTakenIn(Exception):
    """The run goes on without this node, or has ended."""

    def __init__(self, exit_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def card_of(session: Session, agent: SeamAgent, lives: int) -> NodeCard:
    """What this node says of itself. `lives`: how often it has come back under a new name."""
    versions = {"resilient-run": __version__, "torch": str(torch.__version__)}
    if torch.cuda.is_available() and is_nccl_available():
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    spec = agent.group.spec
    return NodeCard(
        node=session.node + (f".{lives}" if lives else ""),
        host=session.host,
        nproc=spec.local_world_size,
        role=spec.role,
        versions=tuple(sorted(versions.items())),
    )


def peers_over(
    base: TCPStore,
    session: Session,
    agent: SeamAgent,
    *,
    lives: int,
    limits: tuple[int, int, float],
    kill: Callable[[], None],
    abandon: Callable[[], None],
) -> Peers:
    """This node among the others that share a store. Raises StoreLost.

    `limits`: as of `decided_rendezvous.node_limits`; the others as of `Peers` and `card_of`.
    """
    policy = session.policy
    limit_s = policy.node_timeout_s
    notice_silence(base.host, base.port, limit_s)
    scope = agent.group.spec.rdzv_handler.get_run_id()
    secret = policy.run_key or f"run {scope}"
    low, high, join_s = limits
    return Peers(
        lambda: TorchControlStore(base, scope, limit_s),
        Seal(secret.encode(), scope),
        card_of(session, agent, lives),
        limits=NodeLimits(
            min_nodes=low,
            max_nodes=high,
            on_loss=policy.on_node_loss,
            wait_s=join_s if policy.node_wait_s is None else policy.node_wait_s,
        ),
        limit_s=limit_s,
        kill=kill,
        abandon=abandon,
    )


def meet(peers: Peers, rank: int, size: int, timeout_s: float) -> View:
    """The first view, after torch's rendezvous gave this node its rank.

    Raises Misuse when the nodes run different software, TimeoutError when one does not answer.
    """
    view = peers.roster.exchange(peers.me, rank, size, timeout_s)
    refuse_mixture(view)
    if rank == 0:
        peers.fence.raise_to(0)
    peers.begin_beating()
    return view


def is_first_view(peers: Peers) -> bool:
    """Whether the run that goes on is the one that we are just beginning."""
    view = peers.roster.view(0) if peers.roster.current() == 0 else None
    return view is not None and peers.me.node in view.names


def refuse_mixture(view: View) -> None:
    """Raises Misuse when the members of a view run different software."""
    if text := differing(view.members):
        raise Misuse(
            f"the nodes do not run the same software: {text}. Install the same versions on all "
            "nodes; a run would fail or hang in ways that do not show the cause."
        )


def join(peers: Peers, session: Session, patience_s: float) -> tuple[View, list[PastAttempt]]:
    """Ask to be taken in and wait for it: the view that has us, and what went before.

    Waits as long as the run goes on. Raises NotTakenIn when it ends without us or this machine
    needs recycling, Misuse when the run has other software, TimeoutError when the attempt that
    was to have us does not begin.
    """
    if peers.roster.is_condemned(boot_id()):
        raise NotTakenIn(
            RECYCLE,
            "an earlier agent on this machine left a process that cannot be killed, so the run "
            "takes no node on it any more; restart the machine",
        )
    attempt = peers.roster.current() or 0
    view = peers.roster.view(attempt)
    if view is not None:
        refuse_mixture(View(attempt=attempt, members=(*view.members, peers.me)))
    past = [d.past for n in range(attempt) if (d := peers.decision_on(n)) is not None]
    peers.begin_beating()
    peers.roster.knock(peers.me)
    session.recorder.event("node.joining", attempt=attempt)
    while True:
        decision = peers.decision_on(attempt)
        if decision is None:
            time.sleep(LOOK_S)
            continue
        attempt += 1
        past.append(decision.past)
        if decision.change.verdict is Verdict.STOP:
            why = decision.past.diagnosis.sentence
            raise NotTakenIn(
                decision.change.exit_code,
                f"the run ended while this node waited to be taken in: {why}",
            )
        if any(card.node == peers.me.node for card in decision.change.add):
            return peers.roster.await_view(attempt, patience_s), past
