"""A node that the store does not answer has killed its workers before others call it lost."""

import threading
import time
from collections.abc import Iterator

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from agreement.relay import Relay
from resilient.agent.control_store import TorchControlStore
from resilient.agent.heartbeats import Heartbeats, now_s
from resilient.agent.sealing import Seal
from resilient.decide.lease import KILL_S
from resilient.decide.watching import Watch

LIMIT_S, GROUP = 1.5, 900  # so many nodes beat slowly: the lease's hardest case


class Node:
    """A beating node that notes when it killed its workers and when it called others lost."""

    def __init__(self, store: TCPStore, name: str, other: str) -> None:
        self.killed_at, self.lost_at = float("inf"), float("inf")
        self._seen = threading.Event()
        self.beats = Heartbeats(
            lambda: TorchControlStore(store, "run", LIMIT_S),
            Seal(b"secret", "run"),
            name,
            LIMIT_S,
            wake=self._woken,
            kill=self._kill,
        )
        self.beats.begin()
        self.beats.watch(Watch(often=(other,)), group=GROUP)

    def _woken(self) -> None:
        if self.beats.silent():
            self.lost_at = min(self.lost_at, now_s())

    def _kill(self) -> None:
        self.killed_at = min(self.killed_at, now_s())


@pytest.fixture
def relay() -> Iterator[tuple[TCPStore, Relay]]:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    between = Relay(store.port)
    yield store, between
    between.close()


@pytest.mark.parametrize("moment", [0.0, 0.2, 0.4, 0.6])
def test_the_cut_off_node_is_dead_first(relay: tuple[TCPStore, Relay], moment: float) -> None:
    store, between = relay
    through = TCPStore("127.0.0.1", between.port, is_master=False, wait_for_workers=False)
    isolated, observer = Node(through, "n1", "n0"), Node(store, "n0", "n1")
    time.sleep(2.0 + moment)
    assert isolated.killed_at == observer.lost_at == float("inf")
    between.fall_silent()
    until = time.monotonic() + 10.0
    while observer.lost_at == float("inf") and time.monotonic() < until:
        time.sleep(0.02)
    assert isolated.killed_at + KILL_S <= observer.lost_at < float("inf")
    observer.beats.close()
    isolated.beats.close()
