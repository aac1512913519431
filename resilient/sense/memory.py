"""How much memory another process may take on this node."""

from pathlib import Path

import psutil

_UNLIMITED = 1 << 60  # cgroup v1 writes "no limit" as a number near 2^63


def available_mib() -> float:
    """MiB that can be taken without swapping, within this process's own cgroup limit."""
    free: float = psutil.virtual_memory().available
    for limit, usage in _cgroup_files():
        try:
            bound, used = int(limit.read_text()), int(usage.read_text())
        except (OSError, ValueError):  # absent, unreadable, or "max"
            continue
        if bound < _UNLIMITED:
            free = min(free, max(0, bound - used))
    return free / (1 << 20)


def _cgroup_files() -> list[tuple[Path, Path]]:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            folder = Path("/sys/fs/cgroup" + path)
            files.append((folder / "memory.max", folder / "memory.current"))
        elif "memory" in controllers.split(","):
            folder = Path("/sys/fs/cgroup/memory" + path)
            files.append((folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes"))
    return files
