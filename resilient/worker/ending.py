"""Tells whether the script's main ended well, before the interpreter's own end can spoil it.

`ended` is called when main returned or raised SystemExit(0 or None), and never otherwise.
Python has no hook for that, so the evidence is gathered at the start of finalization:

    an exception    the interpreter has set sys.last_type
    SystemExit      of a script: Py_Exit is on the C stack; of `-m`: runpy did not return
    its exit code   only that of a sys.exit is known, see exits.py

A SystemExit raised in another way has a code that cannot be known: that is no success then.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from . import exits, libc


class Ending:
    """`finishing`: finalization starts; whether main ended well. `ended`: it did, and is over."""

    def __init__(self, finishing: Callable[[bool], None], ended: Callable[[], None]) -> None:
        self._ended = ended
        self._finishing = finishing
        self._pid = os.getpid()
        self._module: Any = None  # runpy's entry point in a cache
        self._exited = False
        self._well = False

    def install(self) -> None:
        """Register before anybody else, so as to be called last."""
        atexit.register(self._last)
        # These run first of all, before threads are joined and before atexit's functions.
        getattr(threading, "_register_atexit", atexit.register)(self._finalizing)
        exits.watch(self._set_exited)
        script = sys.argv[0]
        if script == "-m" or os.path.isdir(script):
            self._watch_runpy()

    def _set_exited(self) -> None:
        self._exited = True

    def _watch_runpy(self) -> None:
        """Learn whether runpy returns: for `-m` Python handles SystemExit without Py_Exit.

        A cache around runpy's entry point is C code, so that it adds no frame to tracebacks,
        and it holds a result only if there was one.
        """
        import runpy

        self._module = functools.lru_cache(maxsize=None)(runpy._run_module_as_main)  # type: ignore[attr-defined]
        runpy._run_module_as_main = self._module  # type: ignore[attr-defined]

    def _ended_well(self) -> bool:
        if hasattr(sys, "last_type") or hasattr(sys, "last_value"):
            return False
        if self._exited:
            return True
        if self._module is not None and self._module.cache_info().misses:
            returned = bool(self._module.cache_info().currsize)
            self._module.cache_clear()
            return returned
        main = sys.modules.get("__main__")
        if main is None or getattr(main, "__spec__", None) is not None:
            return False  # run by a runpy that is not watched: a zip file
        return _returned(libc.stack())

    def _finalizing(self) -> None:
        if os.getpid() != self._pid:
            return
        with contextlib.suppress(Exception):
            self._well = self._ended_well()
        self._finishing(self._well)
        main = threading.main_thread()
        if not any(thread is not main and not thread.daemon for thread in threading.enumerate()):
            self._last()

    def _last(self) -> None:
        """Right away where no thread is left, else after threads and atexit's functions."""
        if self._well and os.getpid() == self._pid:
            self._well = False
            self._ended()


def _returned(stack: list[str]) -> bool:
    """Whether the C stack is that of a main that returned: Py_RunMain finalizes by itself.

    Anything else counts as unknown, an interpreter without these symbols included.
    """
    if "Py_RunMain" not in stack or "Py_Exit" in stack:
        return False
    called = stack[stack.index("Py_RunMain") - 1]
    return called in ("Py_FinalizeEx", "")  # "": from 3.13 on a function that is not exported
