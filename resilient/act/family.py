"""Who is whose child, asked in the way that a killer of process trees needs it.

`sense.processes` walks all processes and can miss one that was born during the walk. Here the
kernel's own list of one process's children is read. For the calling process that list is exact
as long as it reaps none meanwhile: a child that ends stays listed until it is reaped, and an
orphan that a subreaper inherits is added at the end. So, for a subreaper, an empty list proves
that no descendant is left, at a cost of some ten microseconds.
"""

import contextlib
import os


def read(path: str) -> bytes:
    """Content of a file in /proc; empty where the process is gone or not ours to read."""
    content = b""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while more := os.read(fd, 65536):
                content += more
        finally:
            os.close(fd)
    return content


def names(folder: str) -> list[str]:
    """Names in a folder; empty where it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def children(pid: int) -> list[int]:
    """Pids of the direct children of `pid`, zombies included, in the order in which they came."""
    threads = names(f"/proc/{pid}/task")
    found = [
        int(child)
        for thread in threads
        for child in read(f"/proc/{pid}/task/{thread}/children").split()
    ]
    if not found and threads and not _kernel_lists_children():
        return _walk(pid) or _walk(pid)  # twice: one born during the first walk is in the second
    return found


def ended(pid: int) -> bool:
    """Whether no thread of it runs any more: it is gone, or a zombie.

    A process whose main thread has ended shows "Z" too, while others live or hang in "D".
    """
    fields = _fields(pid)
    return not fields or (fields[0] in (b"Z", b"X") and int(fields[17]) <= 1)


def _fields(pid: int | str) -> list[bytes]:
    """The fields of /proc/PID/stat from `state` on."""
    line = read(f"/proc/{pid}/stat")
    return line[line.rindex(b")") + 2 :].split() if line else []


def _kernel_lists_children() -> bool:
    return os.access("/proc/thread-self/children", os.R_OK)  # CONFIG_PROC_CHILDREN


def _walk(parent: int) -> list[int]:
    found = []
    for name in names("/proc"):
        if name.isdigit() and (fields := _fields(name)) and int(fields[1]) == parent:
            found.append(int(name))
    return found
