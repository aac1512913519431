"""Processes as the kernel shows them in /proc: who descends from whom, who stopped, who caught.

Read directly, one small file a process: a walk over a hundred processes takes about a
millisecond, and a vanished process is an ordinary answer, not an error.
"""

import os
from collections.abc import Mapping

import msgspec


class Proc(msgspec.Struct, frozen=True):
    """One process at one moment. `pid` and `start` together name it for good: pids are reused."""

    pid: int
    ppid: int
    state: str  # R S D T t Z X I, see proc(5); "Z" only when every thread has ended
    comm: str  # name of its main thread, at most 15 bytes
    start: int  # clock ticks since boot


def _read(path: str) -> bytes | None:
    """A /proc file's content, None where the process is gone or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    content = b""
    try:
        while more := os.read(fd, 16384):  # a short read is no sign of the end here
            content += more
    except OSError:
        return None
    finally:
        os.close(fd)
    return content


def _parse(line: bytes) -> Proc:
    opening, closing = line.index(b"("), line.rindex(b")")  # a name may contain both
    fields = line[closing + 2 :].split(b" ", 20)
    pid, state = int(line[:opening]), fields[0].decode()
    if state == "Z" and int(fields[17]) > 1:
        state = _surviving_state(pid)
    comm = line[opening + 1 : closing].decode(errors="replace")
    return Proc(pid, int(fields[1]), state, comm, int(fields[19]))


def _surviving_state(pid: int) -> str:
    """State of the first live thread of a process whose main thread has ended.

    Such a process shows "Z", but lives, can stop, and may hang in "D" for ever.
    """
    for thread in _names(f"/proc/{pid}/task"):
        line = _read(f"/proc/{pid}/task/{thread}/stat")
        if line and (state := line[line.rindex(b")") + 2 :][:1].decode()) not in "ZX":
            return state
    return "Z"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def stat(pid: int) -> Proc | None:
    """The process now, None when there is none (any more)."""
    line = _read(f"/proc/{pid}/stat")
    return _parse(line) if line else None


def snapshot() -> dict[int, Proc]:
    """Every process that can be seen, by pid. Not one moment: processes come and go meanwhile."""
    found = {}
    for name in _names("/proc"):
        if name[0] in "123456789" and (line := _read(f"/proc/{name}/stat")):
            proc = _parse(line)
            found[proc.pid] = proc
    return found


def descendants(root: int, procs: Mapping[int, Proc] | None = None) -> list[Proc]:
    """All descendants of `root` without itself, parents before children, zombies included."""
    family: dict[int, list[Proc]] = {}
    for proc in (snapshot() if procs is None else procs).values():
        family.setdefault(proc.ppid, []).append(proc)
    found: list[Proc] = []
    generation = [root]
    while generation:
        members = [child for parent in generation for child in family.pop(parent, ())]
        found += members
        generation = [proc.pid for proc in members]
    return found


def catches(pid: int, signum: int) -> bool:
    """Whether the process has a handler of its own for `signum`; False when it is gone."""
    for line in (_read(f"/proc/{pid}/status") or b"").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line[7:], 16) >> (signum - 1) & 1)
    return False


def is_stopped(pid: int) -> bool:
    """Whether it was stopped by a signal; one that a debugger holds ("t") is not."""
    proc = stat(pid)
    return proc is not None and proc.state == "T"


def is_stuck(pid: int) -> bool:
    """Whether it can do nothing for itself now: stopped, traced, or in state D."""
    proc = stat(pid)
    return proc is not None and proc.state in "TtD"


def cmdline(pid: int) -> list[str]:
    """Its arguments; empty for a zombie, a kernel thread, or none."""
    content = _read(f"/proc/{pid}/cmdline") or b""
    return [part.decode(errors="replace") for part in content.split(b"\0")[:-1]]
