"""How the keeper ends: nothing of the run is left, and its status is the agent's."""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Container
from typing import NoReturn

from resilient.act.reap import sweep
from resilient.sense.processes import descendants, stat

SCRIBE = "rr-scribe"  # the name of the process that writes the run directory
SCRIBE_GRACE_S = 2.0
SWEEP_DEADLINE_S = 5.0


def sweep_all(keep: Container[int]) -> None:
    """Kill every descendant that is not in `keep`; the scribe may finish writing first.

    Takes a few milliseconds where nothing hangs, and never more than about
    `SWEEP_DEADLINE_S` + `SCRIBE_GRACE_S`.
    """
    me, last = os.getpid(), time.monotonic() + SWEEP_DEADLINE_S
    scribes = {proc.pid for proc in descendants(me) if proc.comm == SCRIBE}
    if scribes:  # the others first: it reads until the last of them has closed its output
        sweep(me, keep=_Either(keep, scribes), deadline_s=SWEEP_DEADLINE_S)
        grace_ends = time.monotonic() + SCRIBE_GRACE_S
        while any(map(_writing, scribes)) and time.monotonic() < grace_ends:
            time.sleep(0.005)
    sweep(me, keep=keep, deadline_s=max(0.2, last - time.monotonic()))


class _Either:
    def __init__(self, *sets: Container[int]) -> None:
        self._sets = sets

    def __contains__(self, pid: object) -> bool:
        return any(pid in one for one in self._sets)


def _writing(pid: int) -> bool:
    proc = stat(pid)
    return proc is not None and proc.state != "Z"


def end_as(status: int) -> NoReturn:
    """End with the exit code of a wait status, or die of its signal (as PID 1: 128 + n)."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    signum = -code
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its core file must not be ours
    with contextlib.suppress(OSError, ValueError):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
    os.kill(os.getpid(), signum)
    os._exit(128 + signum)
