"""Nodes: who takes part in an attempt, what each saw of its end, and who takes part in the next.

Everything here travels between agents as JSON or is recorded, so that a decision can be taken
again from it.
"""

from enum import Enum
from typing import Literal

import msgspec

from resilient.model.decision import Decision, DecisionRecord, PastAttempt
from resilient.model.evidence import AttemptEvidence

OnLoss = Literal["shrink", "wait", "stop"]


class NodeCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself when it joins."""

    node: str  # "<hostname>-<agent id>", unique for the life of one agent
    host: str
    nproc: int  # workers on this node
    role: str = "default"
    versions: tuple[tuple[str, str], ...] = ()  # ("torch", "2.13.0+cpu"), sorted by name


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of one attempt; the position is the group rank."""

    attempt: int
    members: tuple[NodeCard, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names by group rank."""
        return tuple(card.node for card in self.members)

    def first_rank(self, node: str) -> int:
        """Global rank of a node's first worker. Raises ValueError for a stranger."""
        return sum(card.nproc for card in self.members[: self.names.index(node)])


class Trouble(Enum):
    """Why an attempt ends, in the words of the node that says so first."""

    FAULT = "fault"  # a worker of its own failed
    NODE_LOST = "node_lost"  # another node's heartbeat is gone
    FENCED = "fenced"  # it could not reach the store in time, and has killed its own workers
    LEAVING = "leaving"  # it was told to stop
    PREEMPTED = "preempted"  # the platform announced that it takes the node back
    JOINING = "joining"  # a node waits to be taken in
    DONE = "done"  # no trouble: all workers of all nodes have succeeded


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """The first word of trouble in an attempt; all agents stop their workers on reading it."""

    attempt: int
    node: str  # who says it
    trouble: Trouble
    about: str = ""  # the node that is lost or joins, where it is not the speaker
    silent_s: float = 0.0  # since the last sign of that node, or of the store
    at: float = 0.0  # seconds since the epoch on the speaker's clock


class NodeState(Enum):
    """How a node's part of an attempt ended."""

    DEAD = "dead"  # every process of it is confirmed dead
    DONE = "done"  # all its workers succeeded


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node's account of an attempt's end, published once; at most 16 KiB."""

    attempt: int
    node: str
    state: NodeState
    leaving: str = ""  # why this node takes no part in later attempts: "SIGTERM", "recycle"
    preempted: bool = False  # the platform takes it back
    offset_s: float = 0.0  # to add to this node's clock to get the store's host's
    uncertainty_s: float = 0.0  # of the offset
    evidence: AttemptEvidence | None = None  # times by this node's own clock; None: nothing known


class LostNode(msgspec.Struct, frozen=True, kw_only=True):
    """A member whose heartbeat did not change for the limit, by the observer's clock."""

    node: str
    host: str
    ranks: tuple[int, ...]  # global ranks in the attempt that it was lost in
    silent_s: float
    last_at: float  # seconds since the epoch, on the observer's clock, of its last new beat


class NodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on the number of nodes, from --nnodes and policy."""

    min_nodes: int
    max_nodes: int
    on_loss: OnLoss = "shrink"
    wait_s: float = 600.0  # for how long too few nodes wait for another one


class Verdict(Enum):
    """Whether the next attempt can begin."""

    GO = "go"
    WAIT = "wait"
    STOP = "stop"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """From the nodes of an attempt to those of the next; order is kept, new ones come last."""

    verdict: Verdict
    reason: str
    remove: tuple[str, ...] = ()
    add: tuple[NodeCard, ...] = ()
    exit_code: int = 1  # where the verdict is STOP


class GroupCase(msgspec.Struct, frozen=True, kw_only=True):
    """All that a proposer knew when it decided for the group: enough to decide again."""

    proposer: str
    view: View
    reports: tuple[NodeReport, ...]  # by group rank
    lost: tuple[LostNode, ...] = ()
    joining: tuple[NodeCard, ...] = ()
    alarm: Alarm | None = None  # the attempt's first one; None where it is not known
    waited_s: float = 0.0  # since the proposer could have decided, for more nodes
    limits: NodeLimits


class GroupDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The one record by which an attempt ends, on all nodes alike."""

    attempt: int
    proposer: str
    decision: Decision
    change: Change
    past: PastAttempt  # with the diagnosis; every agent remembers it, since any may decide next
    digest: str = ""  # SHA-256 of the GroupCase that it was taken from


class GroupRecord(DecisionRecord, frozen=True, kw_only=True):
    """A line of decisions.jsonl that may be a group's: `evidence` is then merged from the case."""

    case: GroupCase | None = None
    change: Change | None = None
