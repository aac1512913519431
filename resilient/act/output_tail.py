"""The last lines of a channel, kept in memory and made fit to be quoted.

What a worker printed is untrusted text: escape sequences and other control characters
are taken out before anybody else sees it.
"""

import re

KEPT = 16 << 10  # bytes kept per channel
LINE = 500  # characters of one quoted line

# Terminal control: CSI, OSC/DCS/APC/PM/SOS strings, then any other two-byte escape.
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[]P_^X][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?"
)
# Other controls, and the characters that reorder text for a reader.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")


class Tail:
    """A byte string of which only the last `KEPT` bytes are remembered."""

    __slots__ = ("_data", "cut")

    def __init__(self) -> None:
        self._data = b""
        self.cut = False  # whether earlier bytes were forgotten

    def add(self, data: bytes) -> None:
        """Appends; costs no more than the bytes kept, however long `data` is."""
        joined = data if len(data) >= KEPT else self._data + data
        self.cut = self.cut or len(joined) > KEPT or (joined is data and bool(self._data))
        self._data = joined[-KEPT:]

    def lines(self, count: int) -> tuple[str, ...]:
        """The last `count` lines that show anything, oldest first."""
        return clean_lines(self._data, count, cut=self.cut)


def clean_lines(data: bytes, count: int, *, cut: bool = False) -> tuple[str, ...]:
    """The last `count` non-blank lines of `data`, as a person saw them on a terminal.

    Escape sequences and control characters are removed, undecodable bytes replaced, a
    progress bar that redraws itself with carriage returns is reduced to its last state,
    and a line is cut to `LINE` characters. With `cut` the first line is incomplete and
    left out, unless it is the only one.
    """
    text = _ESCAPE.sub("", data.decode("utf-8", "replace"))
    raw = text.split("\n")
    if cut and len(raw) > 1:
        raw = raw[1:]
    shown = []
    for line in raw:
        states = [state for state in line.split("\r") if state.strip()]
        clean = _CONTROL.sub("", states[-1]).rstrip() if states else ""
        if clean:
            shown.append(clean if len(clean) <= LINE else clean[: LINE - 1] + "…")
    return tuple(shown[-count:]) if count > 0 else ()
