"""A stranger who can write to the store: refused, counted, and without effect."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from resilient.agent.control_store import PREFIX, TorchControlStore
from resilient.agent.ear import alarm_key
from resilient.agent.heartbeats import Beat, beat_key
from resilient.agent.peers import PeerEvent, Peers
from resilient.agent.sealing import Refused, Seal
from resilient.model.membership import (
    Alarm,
    GroupCase,
    GroupDecision,
    NodeCard,
    NodeLimits,
    Trouble,
)

LIMIT_S = 1.5
RUBBISH = [b"x", b"{}", b"\xff" * 200, b"0" * 64 + b' {"count": 9}', b"x" * (3 << 20)]


def never(case: GroupCase) -> GroupDecision:
    raise AssertionError("nothing is to be decided")


@pytest.fixture
def store() -> TCPStore:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.fixture
def pair(store: TCPStore) -> Iterator[tuple[Peers, Peers]]:
    """Two nodes of one run that beat and attend attempt 0."""
    both = [
        Peers(
            lambda: TorchControlStore(store, "run", LIMIT_S),
            Seal(b"secret", "run"),
            NodeCard(node=f"n{rank}", host=f"h{rank}", nproc=1),
            limits=NodeLimits(min_nodes=1, max_nodes=2),
            limit_s=LIMIT_S,
            kill=lambda: None,
        )
        for rank in (0, 1)
    ]
    both[1].roster._put("attempt/0/card/1", both[1].me)
    view = both[0].roster.exchange(both[0].me, 0, 2, 10.0)
    for one in both:
        one.begin_beating()
        one.attend(view, never)
    yield both[0], both[1]
    for one in both:
        with suppress(Exception):
            one.close()


def put(store: TCPStore, key: str, value: bytes) -> None:
    store.set(f"{PREFIX}/run/{key}", value)


def events(pair: tuple[Peers, Peers], seconds: float) -> set[PeerEvent]:
    found = set()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found |= {event for one in pair if (event := one.event()) is not None}
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("value", RUBBISH, ids=range(len(RUBBISH)))
def test_rubbish_as_an_alarm(store: TCPStore, pair: tuple[Peers, Peers], value: bytes) -> None:
    put(store, alarm_key(0), value)
    assert not events(pair, 0.6)
    assert sum(pair[0].refused().values()) >= 1
    pair[1].raise_alarm(Trouble.FAULT)  # ours still gets through
    assert events(pair, 0.6) == {PeerEvent.ALARM}


@pytest.mark.parametrize("value", RUBBISH, ids=range(len(RUBBISH)))
def test_rubbish_as_a_heartbeat(store: TCPStore, pair: tuple[Peers, Peers], value: bytes) -> None:
    until = time.monotonic() + 2 * LIMIT_S
    found: set[PeerEvent] = set()
    while time.monotonic() < until:
        put(store, beat_key("n1"), value)
        found |= events(pair, 0.4)  # written over all the time, no beat could be read
    assert not found


def test_a_replayed_heartbeat_keeps_no_node_alive(
    store: TCPStore, pair: tuple[Peers, Peers]
) -> None:
    old = store.get(f"{PREFIX}/run/{beat_key('n1')}")
    time.sleep(0.6)
    pair[1].stop_beating()
    until = time.monotonic() + 2 * LIMIT_S
    found: set[PeerEvent] = set()
    while time.monotonic() < until and not found:
        put(store, beat_key("n1"), old)
        found = events((pair[0], pair[0]), 0.1)
    assert found == {PeerEvent.ALARM}


def test_an_alarm_of_another_attempt_or_run(store: TCPStore, pair: tuple[Peers, Peers]) -> None:
    alarm = Alarm(attempt=0, node="n1", trouble=Trouble.FAULT)
    seal = Seal(b"secret", "run")
    for other in (
        seal.close(alarm_key(1), alarm),
        Seal(b"secret", "another run").close(alarm_key(0), alarm),
        Seal(b"another secret", "run").close(alarm_key(0), alarm),
    ):
        put(store, alarm_key(0), other.encode())
        assert not events(pair, 0.4)
    assert pair[0].refused()["not authentic"] >= 3


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (lambda text: text[:-1], "not authentic"),
        (lambda text: text + " ", "not authentic"),
        (lambda text: "", "not authentic"),
        (lambda text: text * 100, "too large"),
    ],
)
def test_seals(message: Callable[[str], str], why: str) -> None:
    seal = Seal(b"secret", "run")
    text = seal.close("beat/n1", Beat(7))
    assert seal.open("beat/n1", text.encode(), Beat, 512) == Beat(7)
    with pytest.raises(Refused, match=why):
        seal.open("beat/n1", message(text).encode(), Beat, 512)
    with pytest.raises(Refused, match="schema"):
        seal.open("x", seal.close("x", Beat(7)).encode(), Alarm)


def test_reading_wakes_nobody(store: TCPStore) -> None:
    waiting, reading = (TorchControlStore(store, "run", LIMIT_S) for _ in range(2))
    found: list[bool] = []
    waiter = threading.Thread(target=lambda: found.append(waiting.until_set("key", 30)))
    waiter.start()
    time.sleep(0.3)
    assert reading.read("key") is None
    time.sleep(0.3)
    assert not found
    reading.write("key", "value")
    waiter.join(5)
    assert found == [True]


def test_reading_waits_for_nothing(store: TCPStore) -> None:
    store.set_timeout(timedelta(seconds=30))
    control = TorchControlStore(store, "run", LIMIT_S)
    started = time.monotonic()
    assert control.read("absent") is None
    assert control.replace("key", "first") == b"first"
    assert control.replace("key", "second") == b"first"
    assert control.replace("key", "second", b"first") == b"second"
    assert control.read("key") == b"second"
    assert time.monotonic() - started < 5
