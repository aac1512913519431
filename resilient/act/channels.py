"""Makes the pipes and pseudo-terminals that workers print into (agent side).

A worker is to see what it would see without us: a terminal where the agent's own
output is one, of the same size and settings, otherwise a pipe.
"""

import array
import contextlib
import fcntl
import os
import termios

PIPE_SIZE = 256 << 10  # room for a burst while the scribe is not scheduled
_TIOCGDEV = 0x80045432  # device number behind a terminal: /dev/tty is somebody's /dev/pts/N
_OFLAG = 1


class Ends:
    """The two ends of one channel; both close on exec and keep clear of 0, 1 and 2."""

    __slots__ = ("pty", "read_fd", "write_fd")

    def __init__(self, read_fd: int, write_fd: int, *, pty: bool) -> None:
        self.read_fd = lift(read_fd)
        self.write_fd = lift(write_fd)
        self.pty = pty


class Outputs:
    """A worker's ends: pass them as its stdout and stderr, then `close()`.

    None means that this stream is not captured and that the worker inherits the
    agent's. Both may be the same descriptor.
    """

    __slots__ = ("stderr_fd", "stdout_fd")

    def __init__(self, stdout_fd: int | None, stderr_fd: int | None) -> None:
        self.stdout_fd = stdout_fd
        self.stderr_fd = stderr_fd

    def close(self) -> None:
        """Closes the agent's copies, without which a channel never ends. Idempotent."""
        fds = {self.stdout_fd, self.stderr_fd} - {None}
        self.stdout_fd = self.stderr_fd = None
        for fd in fds:
            if fd is not None:
                os.close(fd)


def lift(fd: int) -> int:
    """`fd` itself, or a copy above 2 in place of it.

    Where a program was started with a standard stream closed, new descriptors get its
    number and would be taken for that stream.
    """
    if fd > 2:
        return fd
    copy: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return copy


def is_inherited(fd: int) -> bool:
    """Whether a worker would get this descriptor from us.

    Not so for one that was closed when we started, whose number may since have been
    given to a socket of ours.
    """
    try:
        return not fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    except OSError:
        return False


def same_output(first: int, second: int) -> bool:
    """Whether two open descriptors lead to one terminal, pipe, socket or file."""
    return _identity(first) == _identity(second)


def _identity(fd: int) -> tuple[int, ...]:
    found = os.fstat(fd)
    if os.isatty(fd):
        device = array.array("I", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(fd, _TIOCGDEV, device)
            return (device[0],)
    return (found.st_dev, found.st_ino, found.st_rdev)


def make_pipe() -> Ends:
    """A pipe with a larger buffer where allowed. Raises OSError (no descriptor left)."""
    read_fd, write_fd = os.pipe()
    with contextlib.suppress(OSError):  # beyond the user's share of pipe memory
        fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    return Ends(read_fd, write_fd, pty=False)


def make_pty(model_fd: int) -> Ends:
    """A pseudo-terminal like the terminal `model_fd`. Raises OSError.

    Output processing is off: the real terminal does it, once.
    """
    master, slave = os.openpty()
    ends = Ends(master, slave, pty=True)
    try:
        settings = termios.tcgetattr(model_fd)
        settings[_OFLAG] &= ~termios.OPOST
        termios.tcsetattr(ends.write_fd, termios.TCSANOW, settings)
        copy_window_size(model_fd, ends.write_fd)
    except termios.error as error:
        os.close(ends.read_fd)
        os.close(ends.write_fd)
        raise OSError(*error.args) from error
    return ends


def copy_window_size(source: int, target: int) -> None:
    """Gives a terminal the size of another; silently nothing where either is gone."""
    size = bytearray(8)  # struct winsize
    with contextlib.suppress(OSError):
        fcntl.ioctl(source, termios.TIOCGWINSZ, size)
        fcntl.ioctl(target, termios.TIOCSWINSZ, bytes(size))
