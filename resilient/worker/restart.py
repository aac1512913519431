"""Starts a standby over as the cold worker that it could not stand in for.

Same process, so the same pid, session, standard descriptors and parent; what survives exec and
the script may have changed since it began is put back.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

from . import libc


def _ignored() -> int:
    """Signals that this process ignores, as a mask."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("SigIgn:"):
                return int(line.split()[1], 16)
    return 0


class Start:
    """What a worker starts with, as it is at construction."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)  # without the hook's own entries
        self.folder = os.getcwd()
        self.umask = os.umask(0o077)
        os.umask(self.umask)
        self.affinity = os.sched_getaffinity(0)
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        self.ignored = _ignored()

    def restore(self) -> None:
        """Put back what an exec would not. Works from any thread."""
        os.umask(self.umask)
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        # Python itself ignores these two, and its parent had given it the default.
        changed = _ignored() & ~self.ignored
        for signum in (signal.SIGPIPE, signal.SIGXFSZ, *_numbers(changed)):
            libc.default_signal(signum)
        with contextlib.suppress(OSError):
            os.chdir(self.folder)
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, self.affinity)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


def _numbers(mask: int) -> list[int]:
    return [number for number in range(1, 65) if mask >> (number - 1) & 1]


def start_over(start: Start, hook_folder: str, channel_fd: int, page_fd: int) -> NoReturn:
    """Execute the interpreter anew with the arguments it had. Raises OSError if it cannot."""
    environment = dict(start.environment)
    given = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (hook_folder, given)))
    environment["RESILIENT_HOOK"] = json.dumps(
        {
            "mode": "cold",
            "fd": channel_fd,
            "page": page_fd,
            "ppid": os.getppid(),
            "pythonpath": given,
        }
    )
    for fd in (channel_fd, page_fd):
        if fd >= 0:
            os.set_inheritable(fd, True)
    start.restore()
    os.execve(sys.executable, sys.orig_argv, environment)  # noqa: S606
