"""A page of styled, wrapped lines: colours on a terminal, plain text elsewhere.

Whatever is put on it is untrusted: text is cleaned of control characters and never read as
markup. rich is imported when the first page is made.
"""

import os
from collections.abc import Mapping
from io import StringIO
from typing import TextIO

from resilient.report.text import clean

NARROWEST, WIDEST = 40, 120  # columns


class Page:
    """Lines of at most `width` columns, except those added with `wrap=False`."""

    def __init__(self, *, width: int, colour: bool) -> None:
        from rich.console import Console  # noqa: PLC0415  (most callers never print a page)

        self.width = max(NARROWEST, min(width, WIDEST))
        self._out = StringIO()
        self._console = Console(
            file=self._out,
            width=self.width,
            color_system="standard" if colour else None,
            force_terminal=colour,
            force_jupyter=False,
            no_color=not colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
            _environ={},
        )

    def line(self, text: str = "", style: str = "", *, prefix: str = "", wrap: bool = True) -> None:
        """One paragraph: its first line stands behind `prefix`, the next ones under that.

        A prefix that is a bar ("| ") is repeated on each line.
        """
        from rich.text import Text  # noqa: PLC0415

        whole = Text(clean(text), style)
        if not wrap:
            parts = [whole]
        else:
            room = max(10, self.width - len(prefix))
            parts = list(whole.wrap(self._console, room, overflow="fold")) or [Text("")]
        following = prefix if prefix.rstrip().endswith("|") else " " * len(prefix)
        for number, part in enumerate(parts):
            ahead = Text().append(following if number else prefix, "dim").append_text(part)
            ahead.rstrip()
            self._console.print(ahead, soft_wrap=True)

    def text(self) -> str:
        """Everything so far."""
        return self._out.getvalue()


def width_of(stream: TextIO, env: Mapping[str, str]) -> int:
    """Columns to write for: COLUMNS, else the terminal's, else 80."""
    given = env.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80


def wants_colour(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Colour only on a terminal that can show it, and not where NO_COLOR is set."""
    try:
        return stream.isatty() and not env.get("NO_COLOR") and env.get("TERM", "dumb") != "dumb"
    except (ValueError, AttributeError):  # closed, or no real stream
        return False


def put(stream: TextIO, text: str) -> None:
    """Writes text, with "?" for what the stream's encoding cannot say; flushes."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()
