"""Whatever is delayed, a node's workers are dead before it is called lost."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.decide.heartbeat import Pulse, heard, silent_s
from resilient.decide.lease import KILL_S, Lease


def test_the_default() -> None:
    lease = Lease(limit_s=3.0)
    assert lease.kill_at(10.0) == pytest.approx(12.2)
    assert lease.dead_by(10.0) == pytest.approx(12.7)
    assert lease.lost_at(10.0) == pytest.approx(13.0)


@given(st.floats(1.5, 604_800), st.floats(0, 1e6))
def test_order(limit: float, sent: float) -> None:
    lease = Lease(limit_s=limit)
    assert sent < lease.kill_at(sent) < lease.dead_by(sent) < lease.lost_at(sent)
    assert lease.dead_by(sent) - lease.kill_at(sent) == pytest.approx(KILL_S, abs=1e-6)


class Renewal(NamedTuple):
    """One beat, in seconds of true time: pause before it, way to the store, way back."""

    pause: float
    there: float
    back: float


delays = st.floats(0, 0.3) | st.floats(0, 8)


@given(
    st.lists(st.builds(Renewal, st.floats(0, 1), delays, delays), max_size=12),
    st.lists(st.floats(0, 60), max_size=40),
    st.floats(1.5, 5),
    st.floats(-0.05, 0.05),
    st.floats(0, 3),
)
def test_a_simulated_holder_is_dead_before_its_observer_calls_it_lost(
    renewals: list[Renewal], reads: list[float], limit: float, drift: float, start: float
) -> None:
    """`drift`: by which the holder's clock is slow and the observer's fast. The first renewal,
    at 0, succeeds before either counts; each later one is sent when the one before was answered.
    """
    lease, slow, fast = Lease(limit_s=limit), 1 - drift, 1 + drift
    counted, now, stored = 0.0, 0.0, []
    for one in renewals:
        sent = now + one.pause
        now = sent + one.there + one.back
        stored.append(sent + one.there)  # also where the answer comes too late for the holder
        if now * slow >= lease.kill_at(counted * slow):
            break
        counted = sent
    dead = lease.dead_by(counted * slow) / slow

    pulse = Pulse(count=0, changed_at=start * fast)
    for now in sorted(read for read in reads if read >= start):
        count = sum(at <= now for at in stored)
        pulse = heard(pulse, count, now * fast)
        if silent_s(pulse, now * fast) >= limit:
            assert dead < now
            assert lease.lost_at(pulse.changed_at) <= now * fast
            break
