"""Words, numbers and untrusted text, made fit for a terminal."""

import re
import signal
from collections.abc import Iterable
from datetime import UTC, datetime

# Terminal commands: CSI …, OSC/DCS/SOS/PM/APC … up to their end, and two- or three-byte ones.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?"
)
# C0 and C1 controls, marks that reorder or hide text, line separators, lone surrogates.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def clean(text: str) -> str:
    """One line of text that cannot move the cursor, change colours, or hide or reorder itself."""
    text = _ESCAPES.sub("", text)
    shown = [part for part in re.split(r"\r+", text.rstrip("\r\n")) if part]
    last = shown[-1] if shown else ""  # what a progress bar left to be seen
    return _INVISIBLE.sub("", last.replace("\n", " ")).expandtabs(8)


def duration(seconds: float) -> str:
    """0.07 s, 12.3 s, 4 min 05 s, 2 h 31 min."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def moment(at: float, *, date: bool = False) -> str:
    """Time of day in UTC, with the date where that is asked for; "?" for an impossible time."""
    try:
        when = datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return "?"
    return when.strftime("%Y-%m-%d %H:%M:%S UTC" if date else "%H:%M:%S UTC")


def several(number: int, noun: str) -> str:
    """1 step, 3 steps."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ranks(numbers: Iterable[int]) -> str:
    """rank 3; ranks 0-2, 5."""
    ordered = sorted(set(numbers))
    spans: list[tuple[int, int]] = []
    for number in ordered:
        if spans and number == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    listed = ", ".join(
        f"{low}" if low == high else f"{low}{'-' if high > low + 1 else ', '}{high}"
        for low, high in spans
    )
    return f"{'rank' if len(ordered) == 1 else 'ranks'} {listed}"


def exit_words(code: int) -> str:
    """exit code 3, or SIGKILL for -9."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
