"""What a traceback is made of: how its lines look, and the exception as a record."""

import re
from dataclasses import dataclass
from enum import IntEnum

LINE_LIMIT = 2000  # characters of a line that are looked at

_COLOUR = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]")
_PREFIX = re.compile(
    r"(?:\[[A-Za-z_][\w.-]{0,40}\d{1,6}\]: ?|\(\w{1,40} pid=\d{1,9}[^)\n]{0,60}\) ?"
    r"|\[\d{1,6},\d{1,6}\]<std\w{2,4}>: ?)+"
)
HEADER = re.compile(r"(?:\w+ )?Traceback \(most recent call last\):$")
FRAME = re.compile(
    r'\s+File "(?P<file>[^"\n]{1,600})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,200}))?$'
)
EXCEPTION = re.compile(r"(?P<type>[^\W\d][\w.<>]{0,199})(?:: ?(?P<message>.*))?$")
LINK = re.compile(
    r"The above exception was the direct cause of the following exception:$"
    r"|During handling of the above exception, another exception occurred:$"
)
IGNORED = re.compile(r"Exception ignored (?:in|on)\b|--- Logging error ---")
THREAD = re.compile(r"Exception in (?:thread|threading)\b")
# Lines of loggers and of C++ that follow a traceback and are none of its message.
FOREIGN = re.compile(
    r"\[?[EWIF]\d{4} \d|terminate called|Exception ignored|Exception in thread|frame #\d"
    r"|sys:\d|.{0,300}Warning:|Fatal Python error|\d{4}-\d\d-\d\d[ T]\d|--- Logging error"
    r"|-- Process \d"
)
PROGRESS = re.compile(r"\s*(?:[^\n:]{1,60}: +)?\d{1,3}%\|")  # tqdm's bar
MARGIN = re.compile(r"\s*(?:\| |[|+]-|\+ )")


class Weight(IntEnum):
    """Whether an exception can have ended the process."""

    IGNORED = 0
    THREAD = 1
    MAIN = 2


@dataclass(frozen=True)
class Frame:
    """One line of a stack."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Block:
    """One exception as printed, with the stack above it."""

    type: str
    message: str  # all lines of it
    words: str  # what of the message is surely its own: first line, and indented ones
    frames: tuple[Frame, ...] = ()
    weight: Weight = Weight.MAIN
    linked: bool = False  # raised from, or while handling, the exception before it
    inner: tuple[str, ...] = ()  # of a group: "Type: message" of its members
    end: int = 0  # number of the line after it


def plain(line: str) -> str:
    """A line without launcher's prefixes, colours and line end."""
    line = _COLOUR.sub("", line[:LINE_LIMIT].rstrip("\r\n"))
    return line[found.end() :] if (found := _PREFIX.match(line)) else line


def frame_of(found: re.Match[str]) -> Frame:
    """The stack's line that `FRAME` matched."""
    return Frame(found["file"], int(found["line"]), found["function"] or "")
