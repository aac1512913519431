"""Where the seconds of an incident went: its phases as spans, and as a small chart."""

from collections.abc import Sequence

import msgspec

from resilient.model.incident import Phases
from resilient.report.text import duration

_NAMES = (
    ("noticed_s", "notice"),
    ("stopped_s", "stop all"),
    ("rendezvous_s", "rendezvous"),
    ("spawned_s", "start"),
    ("first_collective_s", "1st collective"),
    ("first_step_s", "1st step"),
)
_NARROWEST_BARS = 10  # columns


class Span(msgspec.Struct, frozen=True):
    """One phase, from the end of the one before it; seconds since the fault."""

    name: str
    begin: float
    end: float


def spans(phases: Phases) -> tuple[Span, ...]:
    """The phases that were seen, in order; one that ends before it began is empty."""
    made = []
    begin = 0.0
    for field, name in _NAMES:
        end = getattr(phases, field)
        if end is None:
            continue
        end = max(begin, end)
        if field != "noticed_s" or end > 0:  # 0: the fault's own time is not known
            made.append(Span(name, begin, end))
        begin = end
    return tuple(made)


def chart(parts: Sequence[Span], width: int) -> list[str]:
    """One line for each span: its name, how long it took, and a bar where on the way it lies.

    Lines are at most `width` columns wide; where that leaves no room for bars there are none.
    """
    total = max((span.end for span in parts), default=0.0)
    named = max((len(span.name) for span in parts), default=0)
    took = [duration(span.end - span.begin) for span in parts]
    wide = max(map(len, took), default=0)
    room = min(width, 100) - named - wide - 4
    lines = []
    for span, seconds in zip(parts, took, strict=True):
        left = _column(span.begin, total, room - 1)
        right = max(left + 1, _column(span.end, total, room))
        words = f"{span.name:<{named}}  {seconds:>{wide}}"
        bar = " " * left + "#" * (right - left)
        lines.append(f"{words}  {bar}" if room >= _NARROWEST_BARS else words)
    return lines


def _column(value: float, total: float, room: int) -> int:
    return round(value / total * room) if total > 0 else 0
