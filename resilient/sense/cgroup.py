"""How often the kernel killed a process of our memory cgroup for want of memory."""

from pathlib import Path, PurePosixPath


def oom_kills() -> int | None:
    """The `oom_kill` counter of this process's own memory cgroup; None where not readable.

    Version 2 keeps it in memory.events (kills below it included), version 1 in
    memory.oom_control. It counts since the cgroup was made: compare two readings.
    """
    try:
        file = _counter_file(
            Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
        )
        return None if file is None else _counter(Path(file).read_text())
    except OSError:
        return None


def _counter(text: str) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return None


def _counter_file(membership: str, mounts: str) -> str | None:
    """The file to read, from /proc/self/cgroup and /proc/self/mountinfo.

    The version 1 memory controller wins where it is in use: a hybrid machine lists both.
    """
    paths = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            paths["memory" if controllers else ""] = path
    if "memory" in paths:
        return _located(mounts, "cgroup", paths["memory"], "memory.oom_control")
    if "" in paths:
        return _located(mounts, "cgroup2", paths[""], "memory.events")
    return None


def _located(mounts: str, kind: str, path: str, name: str) -> str | None:
    """`path` as it is visible here: inside a container only a part of the tree is mounted."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split(" ")[3:5]
        fstype, _, options = after.split(" ", 2)
        if fstype != kind or (kind == "cgroup" and "memory" not in options.split(",")):
            continue
        own = PurePosixPath(path)
        below = own.relative_to(root) if own.is_relative_to(root) else PurePosixPath()
        return str(PurePosixPath(point) / below / name)
    return None
