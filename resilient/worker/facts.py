"""What can differ between the moment at which torch is imported and another one.

Compared: between the first attempt and a standby, and between a standby's preload and the
script's own import. No list of variables that torch reads is kept: all of them are compared.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

# Differ between attempts or ranks by design, and torch reads none of them at import.
# fmt: off
VOLATILE = frozenset((
    "RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_ERROR_FILE",
    "RESILIENT_ATTEMPT",
))
# fmt: on

# System libraries that extension modules of the standard library are linked with.
# fmt: off
_SYSTEM = (
    "ld-", "ld64", "libc.", "libc-", "libm.", "libm-", "libdl", "libpthread", "librt",
    "libutil", "libresolv", "libnss", "libnsl", "libgcc_s", "libpython", "libssl", "libcrypto",
    "libffi", "libz.", "libz-", "libzstd", "libbz2", "liblzma", "libsqlite3", "libreadline",
    "libedit", "libtinfo", "libncurses", "libpanel", "libuuid", "libexpat", "libgdbm", "libdb",
    "libtirpc", "libcrypt", "libmpdec", "libb2", "libtcl", "libtk",
)
# fmt: on


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    """Changes that lead from `old` to `new`; None stands for a variable that is gone."""
    changes: dict[str, str | None] = {k: v for k, v in new.items() if old.get(k) != v}
    changes.update({k: None for k in old if k not in new})
    return changes


def apply(changes: Mapping[str, str | None]) -> None:
    """Make changes to this process's environment."""
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def changed(environment: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Another environment with these changes made to it."""
    merged = {**environment, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def become(environment: Mapping[str, str]) -> None:
    """Make this process's environment equal to the one given, in place, its order included."""
    if list(os.environ.items()) != list(environment.items()):
        os.environ.clear()
        os.environ.update(environment)


def stable(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what differs by design."""
    return {k: v for k, v in environment.items() if k not in VOLATILE}


def at_exec() -> dict[str, str]:
    """Environment with which this process was started; the hook's own entries as restored."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environ)
    pairs = (entry.partition(b"=") for entry in entries if b"=" in entry)
    found = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    for name in ("RESILIENT_HOOK", "PYTHONPATH"):
        found.pop(name, None)
        if name in os.environ:
            found[name] = os.environ[name]
    return found


def scheduling() -> tuple[frozenset[int], int]:
    """CPU affinity of this thread, and the flags with which extension modules are loaded."""
    return frozenset(os.sched_getaffinity(0)), sys.getdlopenflags()


def native() -> set[str]:
    """Paths of the native libraries in this process that the standard library does not bring."""
    found = set()
    try:
        with open("/proc/self/maps", "rb") as file:
            for line in file:
                fields = line.split(None, 5)
                if len(fields) == 6 and b".so" in fields[5]:
                    found.add(os.fsdecode(fields[5].rstrip(b"\n")))
    except OSError:
        return set()
    return {
        path
        for path in found
        if not os.path.basename(path).startswith(_SYSTEM) and "/lib-dynload/" not in path
    }
