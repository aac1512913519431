"""Release a process that waits in a collective: shut its group's sockets down from outside.

`abort()` of a gloo group does not wake a waiting thread, but `shutdown(2)` on the socket under
it does, at once, and then the error, the signal handlers and the last words come out.
"""

import contextlib
import os
import socket
from collections.abc import Iterable

from resilient.act import prctl


def release(pid: int, fds: Iterable[int]) -> int:
    """Shut down the sockets that `pid` holds under the numbers `fds`; how many it were.

    Both directions of each connection end, for every holder of it. Never raises: a process
    that is gone, missing rights (ptrace rules, seccomp) or an old kernel make it 0.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return 0
    try:
        return sum(_shutdown(pidfd, fd) for fd in fds)
    finally:
        os.close(pidfd)


def _shutdown(pidfd: int, fd: int) -> bool:
    try:
        copy = prctl.pidfd_getfd(pidfd, fd)
    except OSError:
        return False
    try:
        connection = socket.socket(fileno=copy)
    except OSError:  # not a socket any more: the number was used again
        with contextlib.suppress(OSError):
            os.close(copy)
        return False
    with connection:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:  # not connected any more
            return False
    return True
