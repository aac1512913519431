"""Gives the disk thread a table of descriptors of its own.

A thread that hangs in a dead disk outlives even SIGKILL of its process, and with the
usual table, which all threads share, every descriptor stays open with it: whoever reads
the console would wait for its end, and the agent would not notice that the scribe died.
"""

import os

_CLONE_FILES = 0x400


def part_descriptors(keep: int) -> bool:
    """For this thread and those it starts: only `keep` stays open here. False: not to be had.

    From now on a descriptor opened in this thread means something only in this thread.
    """
    try:
        import ctypes  # noqa: PLC0415 (some builds of Python lack it)

        if ctypes.CDLL(None).unshare(_CLONE_FILES) != 0:
            return False
    except (ImportError, OSError, AttributeError):
        return False
    fds = sorted(int(name) for name in os.listdir("/proc/thread-self/fd"))
    for fd in fds:
        if fd > 2 and fd != keep:
            try:
                os.close(fd)
            except OSError:  # the listing's own
                continue
    return True
