"""Agents that agree over a simulated store: the real code, one operation at a time, seeded.

Each agent runs on a thread of its own, but only one runs at any moment: at every operation on the
store it stops, and the scheduler picks who goes on. So operations interleave in every order, some
agents are slow, and an agent can be killed just before or just after any operation of its own.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from resilient.agent.agreement import Agreement, decision_key, opened
from resilient.agent.sealing import Seal
from resilient.agent.verdicts import as_decision
from resilient.decide.group import decide_group
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import Allowance
from resilient.model.evidence import AttemptEvidence, WorkerEnd
from resilient.model.membership import (
    Alarm,
    GroupCase,
    GroupDecision,
    LostNode,
    NodeCard,
    NodeLimits,
    NodeReport,
    NodeState,
    Trouble,
    View,
)

LIMIT_S = 3.0  # after which a dead agent counts as lost
SEAL_KEY = b"key of the run"
ALARM = Alarm(attempt=0, node="n0", trouble=Trouble.FAULT)
ALLOWANCE = Allowance(max_restarts=3, infra_restarts_per_hour=20, rendezvous_retries=3)


class Killed(BaseException):
    """Ends an agent's thread as SIGKILL would."""


@dataclass
class World:
    """The store, the clock, and who runs."""

    chance: random.Random
    data: dict[str, bytes] = field(default_factory=dict)
    decisions: set[bytes] = field(default_factory=set)  # valid ones that ever lay in the store
    now: float = 100.0

    def put(self, key: str, value: bytes) -> None:
        self.data[key] = value
        if key == decision_key(0) and self._is_valid(value):
            self.decisions.add(value)

    def _is_valid(self, value: bytes) -> bool:
        return opened(Seal(SEAL_KEY, "run"), 0, value) is not None


class SimulatedStore:
    """One agent's connection."""

    def __init__(self, world: World, turn: Callable[[], None]) -> None:
        self._world, self._turn = world, turn

    def read(self, key: str) -> bytes | None:
        self._turn()
        value = self._world.data.get(key)
        self._turn()
        return value

    def peek(self, key: str) -> bytes | None:
        return self.read(key)

    def read_all(self, keys: list[str]) -> list[bytes | None]:
        raise AssertionError("agreements read one by one")

    def write(self, key: str, value: str) -> None:
        self._turn()
        self._world.put(key, value.encode())
        self._turn()

    def replace(self, key: str, value: str, expected: bytes = b"") -> bytes:
        self._turn()
        if self._world.data.get(key, b"") == expected:
            self._world.put(key, value.encode())
        found = self._world.data[key]
        self._turn()
        return found

    def count(self, key: str) -> int:
        raise AssertionError("agreements count nothing")

    def until_set(self, key: str, timeout_s: float) -> bool:
        raise AssertionError("agreements never wait")


class Agent:
    """One member: reports, then steps until it has read a decision or is killed."""

    def __init__(self, world: World, view: View, at: int, rank_failed: int) -> None:
        self.world, self.view, self.at = world, view, at
        self.name = view.names[at]
        self.weight = world.chance.choice([1, 1, 1, 8])  # a heavy one is picked more often
        self.turns_left: int | None = None  # operations until it is killed
        self.killed_at: float | None = None
        self.found: GroupDecision | None = None
        self.lost: Callable[[float], dict[str, LostNode]] = lambda now: {}
        self.over = False
        self._rank_failed = rank_failed
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._live, daemon=True).start()

    def advance(self) -> None:
        """Let it run until its next operation."""
        self._go.release()
        self._back.acquire()

    def _turn(self) -> None:
        if self.turns_left is not None:
            self.turns_left -= 1
            if self.turns_left < 0:
                raise Killed
        self._back.release()
        self._go.acquire()

    def _live(self) -> None:
        self._go.acquire()
        try:
            self._agree()
        except Killed:
            self.killed_at = self.world.now
        self.over = True
        self._back.release()

    def _agree(self) -> None:
        store, seal = SimulatedStore(self.world, self._turn), Seal(SEAL_KEY, "run")
        limits = NodeLimits(min_nodes=1, max_nodes=len(self.view.members))
        agreement = Agreement(
            store, seal, self.view, self.name, limits=limits, propose=self._propose
        )
        agreement.publish(report_of(self.view, self.at, self._rank_failed))
        while self.found is None:
            now = self.world.now
            told = opened(seal, 0, store.read(decision_key(0)))
            self.found = agreement.step(
                now, alarm=ALARM, decision=told, lost=self.lost(now), joining=(), may_write=True
            )
            self._turn()

    def _propose(self, case: GroupCase) -> GroupDecision:
        return propose(case, at=self.world.now)


def report_of(view: View, at: int, rank_failed: int) -> NodeReport:
    """Each saw something else: one of them that its worker was killed, the others nothing."""
    ends: tuple[WorkerEnd, ...] = ()
    host = view.members[at].host
    if at == rank_failed:
        ends = (WorkerEnd(rank=at, local_rank=0, pid=10, host=host, exit_code=-9, mono=1, at=1),)
    evidence = AttemptEvidence(attempt=0, host=host, started_at=0, noticed_at=2, ends=ends)
    return NodeReport(attempt=0, node=view.names[at], state=NodeState.DEAD, evidence=evidence)


def propose(case: GroupCase, at: float) -> GroupDecision:
    """What whoever decides would have the group do."""
    return as_decision(case, decide_group(case, (), ALLOWANCE, diagnose, at=at))


def view_of(count: int) -> View:
    """Members n0, n1, … with one worker each."""
    cards = (NodeCard(node=f"n{i}", host=f"h{i}", nproc=1) for i in range(count))
    return View(attempt=0, members=tuple(cards))


def as_lost(view: View, name: str, seconds: float) -> LostNode:
    """What an agent thinks that has not heard from another one for so long."""
    at = view.names.index(name)
    host = view.members[at].host
    return LostNode(node=name, host=host, ranks=(at,), silent_s=seconds, last_at=0.0)
