"""Finds Python tracebacks in lines of output: plain, chained, cut off at the top, or of a group.

Handles lines of other origin in between. Nothing here judges what an exception means.
"""

from collections.abc import Sequence

from resilient.diagnose.traceback_group import group
from resilient.diagnose.traceback_parts import (
    EXCEPTION,
    FOREIGN,
    FRAME,
    HEADER,
    IGNORED,
    LINK,
    MARGIN,
    PROGRESS,
    THREAD,
    Block,
    Frame,
    Weight,
    frame_of,
)

_CONTINUED = 12  # further lines of a message that are kept


def blocks(lines: Sequence[str]) -> list[Block]:
    """All exceptions in the order printed. Time linear in the length of `lines`."""
    found: list[Block] = []
    at = 0
    while at < len(lines):
        block, after = _block(lines, at, linked=_is_linked(lines, at) and bool(found))
        if block is not None:
            found.append(block)
        at = max(after, at + 1)
    return found


def _is_linked(lines: Sequence[str], at: int) -> bool:
    before = at - 1
    while before >= max(0, at - 3) and not lines[before].strip():
        before -= 1
    return before >= 0 and LINK.match(lines[before]) is not None


def _block(lines: Sequence[str], at: int, *, linked: bool) -> tuple[Block | None, int]:
    """The exception that starts at line `at`, if one does, and the line after it."""
    if MARGIN.match(lines[at]):
        return group(lines, at, linked=linked)
    header = HEADER.match(lines[at].strip()) is not None
    if not header and FRAME.match(lines[at]) is None:
        return None, at
    frames: list[Frame] = []
    here = at + header
    while here < len(lines) and lines[here][:1] in (" ", "\t") and not MARGIN.match(lines[here]):
        if frame := FRAME.match(lines[here]):
            frames.append(frame_of(frame))
        here += 1
    exception = EXCEPTION.match(lines[here]) if here < len(lines) else None
    if exception is None or not (frames or header):
        return None, here
    words, rest, after = _message(lines, here + 1)
    first = exception["message"] or ""
    return (
        Block(
            type=exception["type"],
            message="\n".join([first, *words, *rest]).strip(),
            words="\n".join([first, *(words if first.strip() else [*words, *rest])]).strip(),
            frames=tuple(frames),
            weight=_weight(lines, at),
            linked=linked,
            end=after,
        ),
        after,
    )


def _message(lines: Sequence[str], at: int) -> tuple[list[str], list[str], int]:
    """Further lines of a message: the indented ones right after it, the others, what follows.

    Indented lines belong to it however many there are (a checkpoint that does not fit names
    every weight), others up to a limit: a program that caught the exception may print as well.
    """
    words: list[str] = []
    rest: list[str] = []
    bare = 0
    while at < len(lines) and bare < _CONTINUED:
        line = lines[at]
        if not line.strip() or _ends_message(line):
            break
        indented = line[:1] in (" ", "\t")
        bare += not indented
        (words if indented and not rest else rest).append(line)
        at += 1
    return words[:_CONTINUED], rest[: _CONTINUED - len(words[:_CONTINUED])], at


def _ends_message(line: str) -> bool:
    return any(p.match(line) for p in (HEADER, FRAME, LINK, FOREIGN, MARGIN, PROGRESS))


def _weight(lines: Sequence[str], at: int) -> Weight:
    before = lines[at - 1] if at else ""
    if IGNORED.match(before):
        return Weight.IGNORED
    return Weight.THREAD if THREAD.match(before) else Weight.MAIN
