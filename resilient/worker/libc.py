"""The few calls of the C library that Python has no function for.

An instance of `CDLL` of our own: argument types set on it do not show in the user's.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_GET_NAME = 16
_PROT_READ_WRITE = 3
_MAP_SHARED = 1
_MAP_FAILED = ctypes.c_void_p(-1).value

_lib = ctypes.CDLL(None, use_errno=True)
_lib.prctl.argtypes = (ctypes.c_int, *[ctypes.c_void_p] * 4)
_lib.mmap.restype = ctypes.c_void_p
_lib.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_lib.send.restype = ctypes.c_ssize_t
_lib.send.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
_lib.signal.restype = ctypes.c_void_p
_lib.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
_lib.fflush.argtypes = [ctypes.c_void_p]


class _SymbolInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _failed() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def die_with_parent(signum: int) -> None:
    """Have the kernel send `signum` when the thread that started this process ends."""
    if _lib.prctl(PR_SET_PDEATHSIG, signum, None, None, None) != 0:
        raise _failed()


def get_name() -> bytes:
    """Name of the calling thread, at most 15 bytes; of the main thread: the process's `comm`."""
    name = ctypes.create_string_buffer(16)
    _lib.prctl(PR_GET_NAME, ctypes.addressof(name), None, None, None)
    return name.value


def set_name(name: bytes) -> None:
    """Set the name of the calling thread."""
    text = ctypes.create_string_buffer(name)
    _lib.prctl(PR_SET_NAME, ctypes.addressof(text), None, None, None)


def map_words(fd: int, size: int) -> memoryview[int]:
    """Map `size` bytes of `fd` shared and writable, as 8-byte words.

    Not `mmap.mmap`: that keeps a duplicate of the descriptor at the lowest free number, and the
    script's first open() would get another number than under torchrun. Raises OSError.
    """
    address = _lib.mmap(None, size, _PROT_READ_WRITE, _MAP_SHARED, fd, 0)
    if address is None or address == _MAP_FAILED:
        raise _failed()
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B").cast("Q")


def send(fd: int, data: bytes, flags: int) -> int:
    """send(2), which can do what `os.write` cannot: leave SIGPIPE alone. Raises OSError."""
    sent = int(_lib.send(fd, data, len(data), flags))
    if sent < 0:
        raise _failed()
    return sent


def default_signal(signum: int) -> None:
    """Set a signal's default disposition, from any thread, behind Python's back."""
    _lib.signal(signum, None)


def flush() -> None:
    """Flush what C code has buffered on its own stdio streams."""
    _lib.fflush(None)


def stack() -> list[str]:
    """Names of the exported C functions on the calling thread's stack, innermost first.

    "" stands for a function without an exported name. Empty where libc has no backtrace (musl).
    """
    backtrace: Any = getattr(_lib, "backtrace", None)
    if backtrace is None:
        return []
    addresses = (ctypes.c_void_p * 512)()
    names = []
    for address in addresses[: backtrace(addresses, len(addresses))]:
        info = _SymbolInfo()
        # One byte back: a return address after a call that never returns is in the next function.
        found = address and _lib.dladdr(ctypes.c_void_p(address - 1), ctypes.byref(info))
        names.append(info.name.decode() if found and info.name else "")
    return names
