"""Processes that do not want to die, each made by a fork of this script; and an agent for them.

    python creatures.py FOLDER KIND…      becomes the parent of one creature of each kind

FOLDER is in the command line of every process made here, so that it finds them all; each
creature leaves a file FOLDER/<kind> once it is what it should be.
"""

import os
import signal
import sys
import time
from pathlib import Path

KINDS = ("plain", "daemon", "clean", "storm", "stubborn", "stopped")
SLEEP = 600


def announce(folder: str, kind: str) -> None:
    Path(folder, kind).write_text(str(os.getpid()))


def plain(folder: str) -> None:
    announce(folder, "plain")
    time.sleep(SLEEP)


def _detach() -> None:
    """Leave session and parent, twice forked, as a daemon does."""
    os.setsid()
    if os.fork():
        os._exit(0)


def daemon(folder: str) -> None:
    _detach()
    announce(folder, "daemon")
    time.sleep(SLEEP)


def clean(folder: str) -> None:
    _detach()
    script = 'echo $$ > "$0/clean"; exec -a "sleep $0" sleep 600'
    os.execve("/bin/bash", ["bash", "-c", script, folder], {})


def storm(folder: str) -> None:
    _detach()
    born = 0
    while True:  # each generation lives for about a millisecond
        if os.fork():
            os._exit(0)
        born += 1
        if born == 20:
            announce(folder, "storm")
        time.sleep(0.0005)


def stubborn(folder: str) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    announce(folder, "stubborn")
    time.sleep(SLEEP)


def stopped(folder: str) -> None:
    announce(folder, "stopped")
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(SLEEP)


def main(folder: str, *kinds: str) -> None:
    for kind in kinds:
        if os.fork() == 0:
            try:
                globals()[kind](folder)
            finally:
                os._exit(1)
    announce(folder, "parent")
    time.sleep(SLEEP)


if __name__ == "__main__":
    main(*sys.argv[1:])
