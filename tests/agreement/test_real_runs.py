"""The same over a real store, with real threads, heartbeats and time: one decision."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from agreement.simulation import Killed, propose, report_of, view_of
from resilient.agent.agreement import decision_key
from resilient.agent.control_store import TorchControlStore
from resilient.agent.peers import Peers
from resilient.agent.sealing import Seal
from resilient.model.membership import GroupDecision, NodeLimits, Trouble, View

RUNS, AT_ONCE = 30, 6
LIMIT_S, PATIENCE_S = 3.0, 30.0  # longer than a lost answer of a name server
KEY = b"key of the run"


class SlowStore:
    """A connection whose operations take their time; its user may be killed at one of them."""

    def __init__(self, store: TorchControlStore, chance: random.Random, left: int | None) -> None:
        self._store, self._chance, self._left = store, chance, left

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*args: Any) -> Any:
            self._turn()
            found = method(*args)
            self._turn()
            return found

        return call

    def _turn(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Killed
        time.sleep(self._chance.choice([0, 0, 0.001, 0.02, 0.1]))


class Node(threading.Thread):
    """Beats, reports what it alone has seen, and waits for the decision; or dies on the way."""

    def __init__(self, base: TCPStore, view: View, at: int, failed: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.view, self.at, self._failed = view, at, failed
        self.chance = random.Random(seed)
        mortal = self.chance.random() < 0.4 and at != seed % len(view.members)
        left = self.chance.randint(0, 40) if mortal else None
        opened: list[TorchControlStore] = []

        def connect() -> Any:
            opened.append(TorchControlStore(base, "run", LIMIT_S))
            loops = len(opened) == 1  # the others are those of threads, which beat and listen
            return SlowStore(opened[-1], self.chance, left) if loops else opened[-1]

        self.found: GroupDecision | None = None
        self.killed = False
        self._peers = Peers(
            connect,
            Seal(KEY, "run"),
            view.members[at],
            limits=NodeLimits(min_nodes=1, max_nodes=len(view.members)),
            limit_s=LIMIT_S,
            kill=lambda: None,
        )
        self._peers.begin_beating()

    def run(self) -> None:
        try:
            self._agree()
        except Killed:
            self.killed = True
            self._peers.stop_beating()

    def _agree(self) -> None:
        peers = self._peers
        peers.attend(self.view, lambda case: propose(case, at=time.time()))
        time.sleep(self.chance.uniform(0, 0.5))
        peers.raise_alarm(self.chance.choice([Trouble.FAULT, Trouble.PREEMPTED]))
        time.sleep(self.chance.uniform(0, 0.5))
        peers.publish(report_of(self.view, self.at, self._failed))
        until = time.monotonic() + PATIENCE_S
        while self.found is None and time.monotonic() < until:
            peers.event()
            self.found = peers.settle()
            time.sleep(self.chance.uniform(0, 0.1))

    def leave(self) -> None:
        self._peers.stop_beating()


def one_run(seed: int) -> None:
    chance = random.Random(seed)
    base = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    view = view_of(chance.randint(2, 6))
    failed = chance.randrange(len(view.members))
    nodes = [Node(base, view, at, failed, 1000 * seed + at) for at in range(len(view.members))]
    for node in nodes:
        node.start()
    for node in nodes:
        node.join()
        node.leave()
    alive = [node for node in nodes if not node.killed]
    assert all(node.found is not None for node in alive), f"seed {seed}: some wait for ever"
    assert len({repr(node.found) for node in alive}) <= 1, f"seed {seed}: they do not agree"
    store = TorchControlStore(base, "run", LIMIT_S)
    message = store.read(decision_key(0))
    lies = Seal(KEY, "run").opened(decision_key(0), message, GroupDecision)
    assert not alive or lies == alive[0].found, f"seed {seed}: another one lies in the store"


@pytest.mark.timeout(300)
def test_one_decision_in_real_runs() -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one_run, range(RUNS)))
