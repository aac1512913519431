"""Phases as spans and bars."""

from hypothesis import given
from hypothesis import strategies as st

from resilient.model.incident import Phases
from resilient.report.timeline import chart, spans

SECONDS = st.none() | st.floats(-1, 1e7)
PHASES = st.builds(
    Phases,
    noticed_s=SECONDS,
    stopped_s=SECONDS,
    rendezvous_s=SECONDS,
    spawned_s=SECONDS,
    first_collective_s=SECONDS,
    first_step_s=SECONDS,
)


def test_spans_are_what_lies_between_the_marks() -> None:
    seen = Phases(noticed_s=0.0, stopped_s=0.25, spawned_s=0.5, first_step_s=1.5)
    assert [(one.name, one.begin, one.end) for one in spans(seen)] == [
        ("stop all", 0.0, 0.25),
        ("start", 0.25, 0.5),
        ("1st step", 0.5, 1.5),
    ]
    assert spans(Phases()) == ()
    assert chart((), 80) == []


def test_bars_show_where_the_seconds_went() -> None:
    lines = chart(spans(Phases(stopped_s=1.0, spawned_s=2.0, first_step_s=10.0)), 60)
    assert [line.count("#") for line in lines] == [4, 4, 34]
    assert lines[2].index("#") == lines[1].rindex("#") + 1
    assert "8.00 s" in lines[2]


@given(PHASES, st.integers(1, 300))
def test_bars_fit_and_every_span_is_seen(phases: Phases, width: int) -> None:
    parts = spans(phases)
    assert all(one.begin <= one.end for one in parts)
    lines = chart(parts, width)
    assert len(lines) == len(parts)
    for line in lines:
        assert len(line) <= max(width, 30)
        assert width < 60 or "#" in line
