"""The last lines of a channel, kept in memory and made fit to be quoted.

What a worker printed is untrusted text: escape sequences and other control characters
are taken out before anybody else sees it.
"""

import re
from collections import deque

KEPT = 256 << 10  # bytes kept per channel: an exception may quote a compiler's output
PART = 4 << 10
LINE = 500  # characters of one quoted line

# Terminal control: CSI, OSC/DCS/APC/PM/SOS strings, then any other two-byte escape.
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[]P_^X][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?"
)
# Other controls, and the characters that reorder text for a reader.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")


class Tail:
    """A byte string of which at least the last `KEPT` bytes are remembered, and not many more."""

    __slots__ = ("_parts", "_size", "cut")

    def __init__(self) -> None:
        self._parts: deque[bytes] = deque()
        self._size = 0
        self.cut = False  # whether earlier bytes were forgotten

    def add(self, data: bytes) -> None:
        """Appends; costs no more than the bytes kept, however long `data` is."""
        if len(data) > KEPT:
            data, self.cut = data[-KEPT:], True
        if self._parts and len(self._parts[-1]) + len(data) <= PART:
            self._parts[-1] += data  # many small writes must not become many parts
        else:
            self._parts.append(data)
        self._size += len(data)
        while self._size - len(self._parts[0]) >= KEPT:
            self._size -= len(self._parts.popleft())
            self.cut = True

    def lines(self, count: int) -> tuple[str, ...]:
        """The last `count` lines that show anything, oldest first."""
        return clean_lines(b"".join(self._parts), count, cut=self.cut)


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
