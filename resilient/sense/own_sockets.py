"""This process's own TCP connections, also those that C++ code has opened."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

_MAPPED = "::ffff:"  # an IPv4 address inside IPv6


@contextmanager
def sockets_to(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Duplicates of all sockets connected to a port of a host, given by name or number.

    An option that is set on a duplicate holds for the original. All are closed at the end.
    """
    wanted: set[str | int] = set()
    with suppress(OSError):
        wanted = {info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    with ExitStack() as stack:
        found = []
        for fd in _socket_fds():
            with suppress(OSError):  # closed by another thread meanwhile
                one = stack.enter_context(socket.socket(fileno=os.dup(fd)))
                if _is_connected(one, wanted, port):
                    found.append(one)
        yield found


def listens_on(port: int) -> bool:
    """Whether this process itself accepts connections on a TCP port."""
    for fd in _socket_fds():
        with suppress(OSError), socket.socket(fileno=os.dup(fd)) as one:
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


def _is_connected(one: socket.socket, hosts: set[str | int], port: int) -> bool:
    peer = one.getpeername()
    return isinstance(peer, tuple) and peer[1] == port and peer[0].removeprefix(_MAPPED) in hosts
