"""The first process of a host: python machine.py NAME REPORT HOSTS TEMP OWNER

`unshare` has put it into namespaces of its own. It gives the host its name and its files, and
then does what JSON lines on its stdin ask for:

    {"id", "argv", "env", "cwd", "out", "err"}   start a process in a session of its own
    {"id", "signal", "pid"}                      send a signal; pid -1: to every process at once

It appends JSON lines to REPORT: {"up"}; {"reply": id, "at", …} once the request is carried out;
{"ended": id, "at", "code", "left"} when a started process has ended: `left` are the others that
live on the host at that moment. All times are CLOCK_MONOTONIC.

It ends when its stdin is closed or the process behind the pidfd OWNER has ended; as it is process
1 of the host, the kernel then kills all others.
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress

MS_BIND = 4096
TEMP = "/mnt"  # short: paths of unix sockets end at 107 bytes


class Machine:
    """A host, seen from its first process."""

    def __init__(self, report: str) -> None:
        self._report = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        self._started: dict[int, int] = {}  # request by pid

    def tell(self, **facts: object) -> None:
        os.write(self._report, json.dumps(facts).encode() + b"\n")

    def carry_out(self, request: dict) -> None:
        try:
            more = self._start(request) if "argv" in request else self._signal(request)
        except OSError as error:
            more = {"error": str(error)}
        self.tell(reply=request["id"], at=time.monotonic(), **more)

    def _start(self, request: dict) -> dict:
        os.chdir(request["cwd"])
        writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawnp(
            request["argv"][0],
            request["argv"],
            {"TMPDIR": TEMP, **request["env"]},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, request["out"], writing, 0o666),
                (os.POSIX_SPAWN_OPEN, 2, request["err"], writing, 0o666),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores both
        )
        self._started[pid] = request["id"]
        return {"pid": pid}

    def _signal(self, request: dict) -> dict:
        with suppress(ProcessLookupError):
            os.kill(request["pid"], request["signal"])
        return {}

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid in self._started:
                    code = os.waitstatus_to_exitcode(status)
                    number = self._started.pop(pid)
                    self.tell(ended=number, at=time.monotonic(), code=code, left=living())


def living() -> list[str]:
    """Every process of the host but this one, in words; none that has ended."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/stat") as file:
            words = file.read()
            end = words.rindex(")") + 1
            if pid != "1" and words[end:].split()[0] not in "ZX":
                found.append(words[:end] + words[end : end + 2])
    return found


def furnish(name: str, hosts: str, temp: str) -> None:
    """Give the host its name, names of all hosts, no name servers, and temporary folders."""
    socket.sethostname(name)
    libc = ctypes.CDLL(None, use_errno=True)
    for source, target, kind, flags in (
        (hosts, "/etc/hosts", "", MS_BIND),
        ("/dev/null", "/etc/resolv.conf", "", MS_BIND),
        (temp, TEMP, "", MS_BIND),
        ("shm", "/dev/shm", "tmpfs", 0),
    ):
        if os.path.exists(target):
            words = (source.encode(), target.encode(), kind.encode())
            if libc.mount(*words, ctypes.c_ulong(flags), None):
                raise OSError(ctypes.get_errno(), f"mounting {target}")


def main(name: str, report: str, hosts: str, temp: str, owner: str) -> None:
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    os.set_inheritable(int(owner), False)
    furnish(name, hosts, temp)
    machine = Machine(report)
    machine.tell(up=time.monotonic())
    poll = select.poll()
    for fd in (0, wake, int(owner)):
        poll.register(fd, select.POLLIN)
    text = b""
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if int(owner) in ready:
            return
        if wake in ready:
            os.read(wake, 4096)
        machine.reap()
        if 0 in ready:
            if not (more := os.read(0, 1 << 20)):
                return
            *lines, text = (text + more).split(b"\n")
            for line in lines:
                machine.carry_out(json.loads(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
