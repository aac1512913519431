"""This process's own TCP connections, also those that C++ code has opened."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress

_MAPPED = "::ffff:"  # an IPv4 address inside IPv6


def sockets_to(host: str, port: int, likely: int = -1) -> Iterator[socket.socket]:
    """A duplicate of each socket connected to a port of a host, given by name or number.

    An option that is set on a duplicate holds for the original. Each is closed when the next
    one is asked for. Where descriptor `likely` is one, only that.
    """
    wanted: set[str | int] = set()
    with suppress(OSError):
        wanted = {info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    found = False
    with suppress(OSError), _duplicate(likely) as one:
        if _is_connected(one, wanted, port):
            found = True
            yield one
    for fd in _socket_fds() if not found else ():
        with suppress(OSError), _duplicate(fd) as one:  # else closed by another thread meanwhile
            if _is_connected(one, wanted, port):
                yield one


def next_descriptor() -> int:
    """The number that the next descriptor gets, if no other thread opens one before."""
    fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.close(fd)
    return fd


def listens_on(port: int) -> bool:
    """Whether this process itself accepts connections on a TCP port."""
    for fd in _socket_fds():
        with suppress(OSError), _duplicate(fd) as one:
            internet = one.family in (socket.AF_INET, socket.AF_INET6)
            listening = bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
            if internet and listening and one.getsockname()[1] == port:
                return True
    return False


def _socket_fds() -> list[int]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.append(int(name))
    return found


def _duplicate(fd: int) -> socket.socket:
    """Raises OSError when another thread has opened something else under the number meanwhile."""
    copy = os.dup(fd)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _is_connected(one: socket.socket, hosts: set[str | int], port: int) -> bool:
    peer = one.getpeername()
    return isinstance(peer, tuple) and peer[1] == port and peer[0].removeprefix(_MAPPED) in hosts
