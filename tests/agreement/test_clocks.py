"""The offset of two clocks, measured over a real store; one of the clocks is set wrong."""

import threading
import time

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from resilient.agent import clocks
from resilient.agent.clocks import Clock
from resilient.agent.connections import Connections
from resilient.agent.control_store import TorchControlStore
from resilient.agent.sealing import Seal

SET_WRONG_S = 1000.0


class Wrong:
    """A clock that is ahead for whoever answers, and right for whoever asks."""

    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def time() -> float:
        ahead = threading.current_thread().name == "resilient-clock-answers"
        return time.time() + (SET_WRONG_S if ahead else 0.0)


def test_the_offset_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    control = TorchControlStore(store, "run", 3.0)

    def clock() -> Clock:
        connections = Connections(lambda: TorchControlStore(store, "run", 3.0))
        return Clock(connections, Seal(b"key", "run"), 0)

    first, other = clock(), clock()
    assert other.offset.uncertainty_s > 3600  # as long as nothing is known
    monkeypatch.setattr(clocks, "time", Wrong)
    first.answer()
    other.ask()
    until = time.monotonic() + 20
    while other.offset.uncertainty_s > 1 and time.monotonic() < until:
        time.sleep(0.01)
    assert abs(other.offset.offset_s - SET_WRONG_S) <= other.offset.uncertainty_s
    assert other.offset.uncertainty_s < 1
    assert first.offset.uncertainty_s == 0
    first.close(control)
