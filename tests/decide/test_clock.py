import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.decide.clock import Offset, Ping, offset


def ping(true: float, there: float, back: float, behind: float) -> Ping:
    """A message sent at a true time, by a clock that is `behind` the other one."""
    return Ping(sent=true - behind, remote=true + there, received=true + there + back - behind)


def test_the_shortest_way_wins() -> None:
    slow, quick = ping(10.0, 2.0, 0.0, 5.0), ping(20.0, 0.25, 0.25, 5.0)
    assert offset([slow, quick, slow]) == Offset(offset_s=5.0, uncertainty_s=0.25)
    assert offset([slow]) == Offset(offset_s=6.0, uncertainty_s=1.0)


def test_without_a_usable_ping() -> None:
    assert offset([]) is None
    set_back = Ping(sent=10.0, remote=10.0, received=9.0)
    assert offset([set_back]) is None
    assert offset([set_back, ping(1.0, 0.5, 0.5, 0.0)]) == Offset(offset_s=0.0, uncertainty_s=0.5)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=10
    ),
    st.floats(-1e5, 1e5),
)
def test_the_truth_is_within_the_uncertainty(
    ways: list[tuple[float, float, float]], behind: float
) -> None:
    found = offset(ping(*way, behind) for way in ways)
    assert found is not None
    assert abs(found.offset_s - behind) <= found.uncertainty_s + 1e-6
    assert found.uncertainty_s == pytest.approx(
        min(there + back for _, there, back in ways) / 2, abs=1e-6
    )
