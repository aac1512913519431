"""Exception groups as the interpreter prints them, with margins that show the depth."""

import re
from collections.abc import Sequence

from resilient.diagnose.traceback_parts import EXCEPTION, FRAME, MARGIN, Block, Frame, frame_of


def group(lines: Sequence[str], at: int, *, linked: bool) -> tuple[Block | None, int]:
    """An exception group: margins of "|" show how deep a line lies."""
    here = at
    frames: list[Frame] = []
    top: re.Match[str] | None = None
    inner: list[str] = []
    while here < len(lines) and (margin := MARGIN.match(lines[here])):
        text = lines[here][margin.end() :]
        outermost = lines[here].startswith("  ") and lines[here][2:3] in ("|", "+")
        if outermost and (frame := FRAME.match(text)):
            frames.append(frame_of(frame))
        elif exception := EXCEPTION.match(text):
            if outermost and top is None:
                top = exception
            elif not exception["type"].endswith("ExceptionGroup"):
                inner.append(text.strip())
        here += 1
    if top is None and not inner:
        return None, here
    message = ((top["message"] or "") if top else "") + ": " + "; ".join(inner)
    kind = top["type"] if top else "ExceptionGroup"
    return (
        Block(
            type=kind,
            message=message,
            words=message,
            frames=tuple(frames),
            linked=linked,
            inner=tuple(inner),
            end=here,
        ),
        here,
    )
