"""What each verb of `resilient` gives back; `tool` prints it, as text or as JSON."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """Exit codes of `resilient`."""

    FINE = 0
    BAD_NEWS = 1
    MISUSE = 2
    UNDETERMINED = 3


@dataclass(frozen=True)
class Answer:
    """The same answer for a person, for a program, and for a shell's `if`."""

    text: str  # for standard output, with its newlines
    record: dict[str, Any]  # plain JSON values, with "schema"
    code: Exit = Exit.FINE
    notes: tuple[str, ...] = ()  # for standard error, one line each


@dataclass(frozen=True)
class Screen:
    """What standard output can show."""

    width: int
    colour: bool
