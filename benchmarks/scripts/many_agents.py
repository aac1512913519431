"""Holds some of the agents of `control_plane.py`: each is the real control plane, without workers.

Reads one JSON request a line and answers each with one line.
"""

import json
import os
import resource
import select
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    RendezvousTimeout,
)

from resilient.agent.control_store import ControlStore, TorchControlStore
from resilient.agent.heartbeats import now_s
from resilient.agent.peers import PeerEvent, Peers
from resilient.agent.sealing import Seal
from resilient.agent.verdicts import as_decision
from resilient.decide.group import decide_group
from resilient.decide.membership import apply
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import Allowance
from resilient.model.membership import (
    GroupCase,
    GroupDecision,
    NodeCard,
    NodeLimits,
    NodeReport,
    NodeState,
)

JOIN_S, DECIDE_S = 300.0, 60.0
PER_S = 125.0  # agents that begin in a second: here they share a machine's cores
ALLOWANCE = Allowance(max_restarts=100, infra_restarts_per_hour=10_000, rendezvous_retries=100)


class Counted:
    """A control store that counts operations and the time of each."""

    def __init__(self, store: ControlStore) -> None:
        self._store, self.operations, self.seconds = store, 0, 0.0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*args: Any) -> Any:
            start = time.monotonic()
            try:
                return method(*args)
            finally:
                self.operations += 1
                if name != "until_set":
                    self.seconds += time.monotonic() - start

        return call


class Agent(threading.Thread):
    """One node of the run."""

    def __init__(self, number: int, base: TCPStore, of: int, timeout_s: float) -> None:
        super().__init__(daemon=True)
        self.number, self._of, self.dead = number, of, False
        self.stores: list[Counted] = []
        self.alarmed: list[float] = []  # when each alarm was heard
        self.decided: list[float] = []  # when each decision was read
        self.removed = self.fenced = 0
        self.joined = threading.Event()

        def connect() -> Any:
            self.stores.append(Counted(TorchControlStore(base, "bench", timeout_s)))
            return self.stores[-1]

        self.peers = Peers(
            connect,
            Seal(b"key", "bench"),
            NodeCard(node=f"n{number:05d}", host=f"h{number:05d}", nproc=8),
            limits=NodeLimits(min_nodes=1, max_nodes=of),
            limit_s=timeout_s,
            kill=lambda: None,
        )

    def run(self) -> None:
        view = self.peers.roster.exchange(self.peers.me, self.number, self._of, JOIN_S)
        time.sleep(self.number / PER_S)
        self.peers.begin_beating()
        self.peers.attend(view, propose)
        self.joined.set()
        poll = select.poll()
        poll.register(self.peers.fileno(), select.POLLIN)
        while not self.dead:
            poll.poll(500)
            event = None if self.dead else self.peers.event()
            if event is PeerEvent.FENCED:
                self.fenced = 1
                self.die()
            elif event is PeerEvent.ALARM:
                self._settle()

    def _settle(self) -> None:
        peers = self.peers
        view = peers.view
        me = peers.me.node
        self.alarmed.append(now_s())
        peers.publish(NodeReport(attempt=view.attempt, node=me, state=NodeState.DEAD))
        poll = select.poll()
        poll.register(peers.fileno(), select.POLLIN)
        decision = None
        while decision is None and not self.dead:
            peers.event()
            decision = peers.settle()
            if decision is None:
                poll.poll(1000 * peers.look_again_s)
        if decision is not None:
            self.decided.append(now_s())
            self.removed += len(decision.change.remove)
            peers.attend(apply(view, decision.change), propose)

    def die(self) -> None:
        """As by SIGKILL: the heart stops, and nothing is said."""
        self.dead = True
        self.peers.stop_beating()

    def settled(self) -> bool:
        """Whether what is done once, after joining, is done."""
        return self.peers.clock is not None and self.peers.clock.is_fresh

    def operations(self) -> int:
        return sum(store.operations for store in self.stores)


def propose(case: GroupCase) -> GroupDecision:
    """What the agent's Verdicts do, with nothing remembered."""
    return as_decision(case, decide_group(case, (), ALLOWANCE, diagnose, at=time.time()))


class Torchs(threading.Thread):
    """One node in torch's dynamic rendezvous, at its defaults."""

    def __init__(self, number: int, port: int, of: int) -> None:
        super().__init__(daemon=True)
        self.number, self.dead, self.calls, self.seconds = number, False, 0, 0.0
        store = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
        backend = C10dRendezvousBackend(store, "bench")
        call = backend._call_store

        def counted(*args: Any, **kwargs: Any) -> Any:
            start = time.monotonic()
            try:
                return call(*args, **kwargs)
            finally:
                self.calls += 1
                self.seconds += time.monotonic() - start

        backend._call_store = counted  # type: ignore[method-assign]
        timeout = RendezvousTimeout(join=timedelta(seconds=JOIN_S))
        self.handler = DynamicRendezvousHandler.from_backend(
            "bench", store, backend, of, of, local_addr=f"h{number:05d}", timeout=timeout
        )
        self.joined = threading.Event()

    def run(self) -> None:
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        self.handler.next_rendezvous()
        self.joined.set()

    def settled(self) -> bool:
        """Joining is all that it does once."""
        return True

    def operations(self) -> int:
        return self.calls


def main() -> None:
    """Serve requests until stdin ends."""
    given = json.loads(sys.argv[1])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    threading.stack_size(256 << 10)
    sys.setswitchinterval(1.0)  # hundreds of threads that wait for the interpreter wake this often
    base = TCPStore("127.0.0.1", given["port"], is_master=False, wait_for_workers=False)
    if given["torch"]:
        agents: list[Any] = [Torchs(n, given["port"], given["of"]) for n in given["agents"]]
    else:
        agents = [Agent(n, base, given["of"], given["timeout_s"]) for n in given["agents"]]
    print("{}", flush=True)
    last = Counts(agents)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(answer(request, agents, last)), flush=True)


class Counts:
    """Operations and their seconds since the last time it was asked."""

    def __init__(self, agents: list[Any]) -> None:
        self._agents, self._operations, self._seconds = agents, 0, 0.0

    def since(self) -> tuple[int, float]:
        operations = sum(agent.operations() for agent in self._agents)
        seconds = 0.0
        for agent in self._agents:
            stores = getattr(agent, "stores", [agent])
            seconds += sum(store.seconds for store in stores)
        result = operations - self._operations, seconds - self._seconds
        self._operations, self._seconds = operations, seconds
        return result


def answer(request: dict[str, Any], agents: list[Any], counts: Counts) -> dict[str, Any]:
    """Do what was asked."""
    if request["do"] == "join":
        for agent in agents:
            agent.start()
        return {"joined": all(agent.joined.wait(JOIN_S) for agent in agents)}
    if request["do"] == "settle":
        while not all(agent.settled() for agent in agents):
            time.sleep(0.1)
        return {}
    if request["do"] == "count":
        operations, seconds = counts.since()
        decisions = max((len(getattr(agent, "decided", ())) for agent in agents), default=0)
        return {
            "operations": operations,
            "latency_s": seconds / max(1, operations),
            "decisions": decisions,
            "fenced": sum(getattr(agent, "fenced", 0) for agent in agents),
        }
    if request["do"] == "lose":
        for agent in agents:
            agent.decided.clear()
            agent.alarmed.clear()
            agent.removed = 0
            if agent.number in request["agents"]:
                with suppress(OSError):
                    agent.die()
        return {}
    living = [agent for agent in agents if not agent.dead]
    deadline = time.monotonic() + DECIDE_S
    while any(a.removed < request["victims"] for a in living) and time.monotonic() < deadline:
        time.sleep(0.02)
    missing = [a.peers.me.node for a in living if a.removed < request["victims"]]
    if missing:
        fenced = sum(agent.fenced for agent in living)
        alarmed = sum(agent.peers.alarm is not None for agent in living)
        waiting = {agent.peers.waiting_for for agent in living} - {""}
        print(
            f"no decision at {len(missing)} of {len(living)} agents ({missing[0]}, …): "
            f"{alarmed} alarmed, {fenced} fenced, waiting for {waiting}",
            file=sys.stderr,
        )
    return {
        "alarmed_at": [agent.alarmed[0] for agent in living if agent.alarmed],
        "at": [agent.decided[-1] for agent in living if agent.decided],
        "decisions": max((len(agent.decided) for agent in living), default=0),
    }


if __name__ == "__main__":
    main()
