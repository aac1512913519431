"""Which TCP sockets connect the members of a process group with each other.

From /proc alone: a process's descriptors give the inodes of its sockets, and the kernel's TCP
tables give each inode's two addresses. Where the mirrored pair belongs to another member, the
two are connected. A store served by a process that is no member is never among them.
"""

import os
from collections.abc import Iterator, Sequence

import msgspec

_LISTEN = "0A"
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address inside IPv6, in the kernel's byte order


class _Connection(msgspec.Struct, frozen=True):
    local: tuple[str, str]  # address and port, hexadecimal as the kernel prints them
    remote: tuple[str, str]
    inode: int  # 0: no process holds it any more, the kernel is only finishing it


def _endpoint(text: str) -> tuple[str, str]:
    address, _, port = text.partition(":")
    return address.removeprefix(_MAPPED), port


def _table(pid: int) -> Iterator[_Connection]:
    """The connections of the network namespace that `pid` lives in."""
    for family in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{family}") as table:
                next(table, None)
                for line in table:
                    part = line.split(None, 10)
                    if part[3] != _LISTEN:
                        yield _Connection(_endpoint(part[1]), _endpoint(part[2]), int(part[9]))
        except OSError:
            continue


def _sockets(pid: int) -> dict[int, int]:
    """Descriptor → inode of all sockets that the process holds; empty when it is gone."""
    folder = f"/proc/{pid}/fd/"
    found: dict[int, int] = {}
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in names:
        try:
            target = os.readlink(folder + name)
        except OSError:
            continue
        if target.startswith("socket:["):
            found[int(name)] = int(target[8:-1])
    return found


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def group_sockets(pids: Sequence[int]) -> dict[int, list[int]]:
    """For each pid its descriptors of connected TCP sockets to another member, or to a dead one.

    "To a dead one": no process holds the other end any more, but the kernel still knows it. A
    socket shared by fork counts for every holder, so give the members' descendants too: a
    connection whose owner has died lives on in a data loader that inherited it. Connections to
    members on other machines are not recognised.
    """
    held = {pid: _sockets(pid) for pid in pids}
    holders: dict[int, set[int]] = {}
    for pid, sockets in held.items():
        for inode in sockets.values():
            holders.setdefault(inode, set()).add(pid)
    inside: set[int] = set()
    namespaces = {name: pid for pid in pids if (name := _namespace(pid))}
    for pid in namespaces.values():
        connections = list(_table(pid))
        by_ends = {(one.local, one.remote): one.inode for one in connections}
        for one in connections:
            other = by_ends.get((one.remote, one.local))
            if one.inode in holders and _connects(holders, one.inode, other):
                inside.add(one.inode)
    return {
        pid: sorted(fd for fd, inode in sockets.items() if inode in inside)
        for pid, sockets in held.items()
    }


def _connects(holders: dict[int, set[int]], inode: int, other: int | None) -> bool:
    """Whether the socket's other end is in another member's hands, or in nobody's."""
    if other is None:
        return False
    return other == 0 or bool(holders.get(other, set()) - holders[inode])
