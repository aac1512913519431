"""Asks the kernel for short turns on the CPU.

Where all CPUs are busy training, a process that wakes up waits for the end of somebody's
time slice. One that asks for short slices of its own goes first (Linux 6.12 and later;
earlier kernels ignore it) and still gets no more CPU time than its share. Measured with
three busy processes per CPU: a line's 90th percentile 0.13 instead of 1.3 ms, and a
quarter of the lines out of order. Needs no privilege.
"""

import contextlib
import os
import struct

SLICE_NS = 100_000  # the shortest that the kernel grants
_CALL = {"x86_64": 314, "aarch64": 274}  # sched_setattr
_LAYOUT = "=IIQiIQQQ"  # struct sched_attr, first version: size, policy, flags, nice, …, runtime


def ask_for_short_slices() -> bool:
    """For this thread and those it starts; False where that is not to be had."""
    number = _CALL.get(os.uname().machine)
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # noqa: PLC0415 (some builds of Python lack it)

        nice = os.getpriority(os.PRIO_PROCESS, 0)
        size = struct.calcsize(_LAYOUT)
        wanted = struct.pack(_LAYOUT, size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
        return bool(ctypes.CDLL(None).syscall(number, 0, wanted, 0) == 0)
    return False
