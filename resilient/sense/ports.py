"""Who listens on a TCP port of this host."""

import os
from pathlib import Path

LISTEN = "0A"


def holder_of(port: int) -> str | None:
    """`pid 123 (python train.py)` of the process listening on a port; None where nobody is seen.

    Other users' processes are only seen by root.
    """
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        except OSError:
            continue
        if links & inodes:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            command = b" ".join(words).decode(errors="replace").strip()
            return f"pid {pid} ({command[:200]})"
    return None


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found
