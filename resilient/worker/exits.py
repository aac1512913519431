"""Learns that a sys.exit(0) is what ends the program.

A recorder takes the place of sys.exit. Two proofs are needed, since a SystemExit can be caught,
and can stay behind as the context of another that has a code nobody saw: no Python frame below
the call has a handler around it, and the exception went away when no Python code was running.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any


def watch(exited: Callable[[], None]) -> None:
    """Replace sys.exit; `exited` is called when the interpreter has taken a code of 0 or None.

    The recorder is a class, since calling one can go on to a C function without leaving a frame:
    what sys.exit(3) raises has the traceback that it always has. Only for success is there a
    frame of ours in it, whose local variable lives exactly as long as that exception does.
    """
    original = sys.exit
    lives: list[weakref.ref[_Life]] = []

    def dropped(_life: weakref.ref[_Life]) -> None:
        if sys._getframe().f_back is None and _in_main_thread():
            exited()

    class exit:  # noqa: N801
        __init__: Any = staticmethod(original)
        __doc__ = original.__doc__

        def __new__(cls, *args: Any) -> exit:
            if _is_success(args):
                life = _Life()
                if _in_main_thread() and _nothing_catches(sys._getframe().f_back):
                    lives.append(weakref.ref(life, dropped))
                original(*args)
            return object.__new__(cls)

    exit.__module__, exit.__qualname__ = "sys", "exit"
    # Where `inspect` looks for the signature: the original's.
    vars(exit.__new__)["__wrapped__"] = lambda cls, status=None, /: None
    sys.exit = exit


class _Life:
    """Nothing but a lifetime."""


def _is_success(args: tuple[Any, ...]) -> bool:
    if not args:
        return True
    return len(args) == 1 and (args[0] is None or (isinstance(args[0], int) and args[0] == 0))


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _nothing_catches(frame: FrameType | None) -> bool:
    """Whether no frame from this one outwards is inside a try, with or the like."""
    while frame is not None:
        if _has_handler(frame.f_code, frame.f_lasti):
            return False
        frame = frame.f_back
    return True


def _has_handler(code: CodeType, instruction: int) -> bool:
    """Whether an exception at this offset has a handler: see Objects/exception_handling_notes.txt.

    Python before 3.11 has no such table: then nobody knows, and the answer is yes.
    """
    table = getattr(code, "co_exceptiontable", None)
    if table is None:
        return True
    numbers = _numbers(table)
    for start, length, _target, _depth in zip(numbers, numbers, numbers, numbers, strict=False):
        if 2 * start <= instruction < 2 * (start + length):
            return True
    return False


def _numbers(table: bytes) -> Any:
    """Numbers of 6-bit groups, the highest first; bit 6 says that another group follows."""
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            yield value
            value = 0
