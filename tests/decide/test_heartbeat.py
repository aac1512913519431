import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.decide.heartbeat import Pulse, heard, least_limit_s, period_s, silent_s
from resilient.decide.watching import operations


@pytest.mark.parametrize(
    ("nodes", "limit", "period"),
    [
        (2, 2.5, 0.25),
        (128, 2.5, 0.25),
        (256, 2.5, 0.25),
        (1250, 2.5, 0.827),
        (2, 1.5, 0.25),
        (2, 60.0, 5.0),
        (0, 0.0, 0.25),
    ],
)
def test_period(nodes: int, limit: float, period: float) -> None:
    assert period_s(nodes, limit) == pytest.approx(period, abs=0.001)


@given(st.integers(1, 10_000), st.floats(1.5, 600))
def test_the_store_can_bear_it(nodes: int, limit: float) -> None:
    period = period_s(nodes, limit)
    assert operations(nodes) / period <= 1800.0001
    assert period >= 0.25
    if limit >= least_limit_s(nodes):
        assert 2 * period < limit


def test_the_default_limit_is_enough_for_all_but_the_largest_groups() -> None:
    assert least_limit_s(2) == 1.0
    assert least_limit_s(1250) < 2.5 < least_limit_s(1700)


def test_a_beat_that_was_sent_again_is_no_sign_of_life() -> None:
    pulse = heard(Pulse(count=-1, changed_at=10.0), 5, 11.0)
    assert (pulse.count, silent_s(pulse, 11.0)) == (5, 0.0)
    for count in (5, 4, -1):
        again = heard(pulse, count, 13.0)
        assert (again.count, silent_s(again, 13.0)) == (5, 2.0)
    assert silent_s(heard(pulse, 6, 12.5), 13.0) == 0.0
    assert silent_s(heard(pulse, 5, 13.0), 10.0) == 0.0  # asked with an older time


def test_an_observer_that_could_not_read_knows_nothing() -> None:
    pulse = heard(Pulse(count=-1, changed_at=10.0), 5, 11.0)
    assert silent_s(pulse, 99.0) == 0.0
    assert silent_s(Pulse(count=-1, changed_at=10.0), 99.0) == 0.0
    # The beat may have come between question and answer.
    assert silent_s(heard(pulse, 5, 99.0, asked=11.5), 99.0) == 0.5
    assert heard(pulse, 6, 99.0, asked=11.5).changed_at == 99.0


@given(st.lists(st.tuples(st.integers(-1, 50), st.floats(0, 100)), max_size=20))
def test_silence_grows_until_a_new_beat(beats: list[tuple[int, float]]) -> None:
    pulse, highest, changed = Pulse(count=-1, changed_at=0.0), -1, 0.0
    for count, now in sorted(beats, key=lambda beat: beat[1]):
        pulse = heard(pulse, count, now)
        if count > highest:
            highest, changed = count, now
        assert (pulse.count, silent_s(pulse, now)) == (highest, now - changed)
