"""prctl(2) and the pidfd calls that Python lacks, through the C library.

All of them act on the calling process or thread and fail with `OSError`.
"""

import ctypes
import os

_PR_SET_PDEATHSIG = 1
_PR_GET_PDEATHSIG = 2
_PR_SET_NAME = 15
_PR_GET_NAME = 16
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_SYS_PIDFD_GETFD = 438  # the same number on every architecture

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _prctl(option: int, argument: object) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, argument, zero, zero, zero))


def set_pdeathsig(signum: int) -> None:
    """Have the kernel send us `signum` when the *thread* that forked us ends; 0 switches it off.

    It survives exec and is cleared by fork. The parent may be gone already: compare
    `os.getppid()` with the expected pid afterwards.
    """
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signum))


def get_pdeathsig() -> int:
    """The signal set by `set_pdeathsig`, 0 for none."""
    value = ctypes.c_int(0)
    _prctl(_PR_GET_PDEATHSIG, ctypes.byref(value))
    return value.value


def set_subreaper(on: bool) -> None:
    """Orphaned descendants become our children instead of init's. Needs no privilege."""
    _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(int(on)))


def get_subreaper() -> bool:
    """Whether `set_subreaper(True)` is in force."""
    value = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value))
    return bool(value.value)


def set_name(name: str) -> None:
    """Name the calling thread (in the main thread: what `ps` shows); 15 bytes are kept."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]))


def get_name() -> str:
    """The calling thread's name."""
    buffer = ctypes.create_string_buffer(16)
    _prctl(_PR_GET_NAME, buffer)
    return buffer.value.decode(errors="replace")


def pidfd_getfd(pidfd: int, fd: int) -> int:
    """A duplicate (close-on-exec) of file descriptor `fd` of the process behind `pidfd`.

    Needs the right to trace that process; EPERM, ENOSYS, EBADF and ESRCH come as `OSError`.
    """
    number = ctypes.c_long(_SYS_PIDFD_GETFD)
    return _checked(
        int(_libc.syscall(number, ctypes.c_int(pidfd), ctypes.c_int(fd), ctypes.c_uint(0)))
    )
