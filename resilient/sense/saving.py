"""Whether a process is in the middle of writing a file that nobody may tear: a checkpoint.

A heuristic, from outside, until the worker itself reports its saves (stage E): it takes any
fresh output file for a save, and misses one whose file is not open between two writes, that is
written through a memory map, or by another process.
"""

import ctypes
import os
import re
import stat
import struct
from collections.abc import Iterator

FRESH_S = 0.5
_LOG = re.compile(r"\.(log|txt|out|err|csv|jsonl?)(\.\d+)?$|tfevents", re.IGNORECASE)
_NOT_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:")
_CONSOLE = ("0", "1", "2")  # redirected output is a log, whatever its name

_AT_FDCWD, _AT_STATX_DONT_SYNC, _TYPE_AND_MTIME = -100, 0x4000, 0x41
_libc = ctypes.CDLL(None)


def inside_save(pid: int, now: float) -> str | None:
    """Path of the file that `pid` is saving, or None.

    That is a regular file, open for writing, not for appending, not a log by its name, and
    modified in the last 0.5 s before `now` (seconds since the epoch). Never waits for the file
    system that it lies on, so that a dead one cannot hold the caller.
    """
    for number, path in _open_files(pid):
        if _written_freely(pid, number):
            modified = _modified(f"/proc/{pid}/fd/{number}")
            if modified is not None and now - modified <= FRESH_S:
                return path
    return None


def _open_files(pid: int) -> Iterator[tuple[str, str]]:
    folder = f"/proc/{pid}/fd/"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return
    for number in numbers:
        try:
            path = os.readlink(folder + number)
        except OSError:
            continue
        candidate = path.startswith("/") and not path.startswith(_NOT_FILES)
        if candidate and number not in _CONSOLE and not _LOG.search(path):
            yield number, path


def _written_freely(pid: int, number: str) -> bool:
    """Open for writing, and not for appending, which is how logs are written."""
    try:
        with open(f"/proc/{pid}/fdinfo/{number}") as info:
            for line in info:
                if line.startswith("flags:"):
                    flags = int(line.split()[1], 8)
                    return bool(flags & os.O_ACCMODE) and not flags & os.O_APPEND
    except OSError:
        pass
    return False


def _modified(path: str) -> float | None:
    """Modification time of a regular file, seconds since the epoch, as this machine last knew it.

    statx(2) with AT_STATX_DONT_SYNC, because stat(2) would ask a network file system's server.
    """
    answer = ctypes.create_string_buffer(256)
    name = path.encode()
    try:
        failed = _libc.statx(_AT_FDCWD, name, _AT_STATX_DONT_SYNC, _TYPE_AND_MTIME, answer)
    except AttributeError:  # a C library without it: then nothing is known
        return None
    (mode,) = struct.unpack_from("=H", answer, 28)
    seconds, nanoseconds = struct.unpack_from("=qI", answer, 112)
    if failed or not stat.S_ISREG(mode):
        return None
    return float(seconds + nanoseconds * 1e-9)
