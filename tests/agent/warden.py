"""Runs a command and tells what outlived it, then kills that: python warden.py REPORT GRACE CMD…

Appends JSON lines to REPORT: {"pid"} once the command runs, and at its end {"code", "seconds",
"left", "settled"}: whatever of its descendants lived after GRACE seconds, in words, and how
long it took until none did. It is their subreaper, so that none escapes by daemonising.
"""

import ctypes
import json
import os
import signal
import sys
import time
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36
PASSED_OVER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # the command's


def living() -> list[tuple[int, str]]:
    """Descendants of this process, and their names; reaps those that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    parents, names = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/stat") as file:
            text = file.read()
            state, ppid = text[text.rindex(")") + 2 :].split()[:2]
            parents[int(pid)] = int(ppid)
            names[int(pid)] = f"{text[: text.rindex(')') + 1]} {state}"
    found = [os.getpid()]
    for parent in found:
        found += [pid for pid, ppid in parents.items() if ppid == parent]
    return [(pid, names[pid]) for pid in found[1:] if not names[pid].endswith(" Z")]


def main(report: str, grace: str, *command: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for signum in PASSED_OVER:
        signal.signal(signum, lambda *_: None)  # exec resets it, unlike SIG_IGN

    def tell(**facts: object) -> None:
        with open(report, "a") as file:
            file.write(json.dumps(facts) + "\n")

    began = time.monotonic()
    launcher = os.posix_spawnp(command[0], command, os.environ)
    tell(pid=launcher)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == launcher:
            break
    ended = time.monotonic()
    while (left := living()) and time.monotonic() - ended < float(grace):
        time.sleep(0.01)
    settled = time.monotonic() - ended
    code = os.waitstatus_to_exitcode(status)
    tell(code=code, seconds=ended - began, left=[words for _, words in left], settled=settled)
    while left := living():
        for pid, _ in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
