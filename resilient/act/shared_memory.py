"""Remove from /dev/shm what killed processes left there."""

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from resilient.act import family

_FOLDER = "/dev/shm/"  # noqa: S108 - where the kernel has it
_TORCH = re.compile(r"torch_(\d+)_")
_GONE = " (deleted)"


def remove_shared_memory(pids: Iterable[int]) -> int:
    """Unlink torch's segments (`torch_<pid>_…`) of those of `pids` that are dead; how many.

    Only files of our own user. A pid that lives (again) keeps its files.
    """
    wanted = {pid for pid in pids if family.ended(pid)}
    removed = 0
    for name in family.names(_FOLDER) if wanted else ():
        made_by = _TORCH.match(name)
        if made_by and int(made_by[1]) in wanted:
            removed += _unlink(_FOLDER + name)
    return removed


def mapped_shared_memory(pids: Iterable[int]) -> set[str]:
    """Paths of the files in /dev/shm that any of `pids` maps or holds open: ask before a kill."""
    return {path for pid in pids for path in _in_use(pid)}


def remove_orphan_shared_memory(names: Collection[str]) -> int:
    """Unlink those of the paths `names` that no live process maps or holds open; how many.

    Only files of our own user. Processes of other users cannot be asked; what they have mapped
    stays valid for them without its name.
    """
    left = {path for path in names if path.startswith(_FOLDER) and Path(path).exists()}
    if left:
        for name in family.names("/proc"):
            if name.isdigit():
                left.difference_update(_in_use(int(name)))
    return sum(map(_unlink, left))


def _in_use(pid: int) -> Iterator[str]:
    for line in family.read(f"/proc/{pid}/maps").splitlines():
        start = line.find(b"/dev/shm/")
        if start >= 0:
            yield os.fsdecode(line[start:]).removesuffix(_GONE)
    for fd in family.names(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith(_FOLDER):
                yield target.removesuffix(_GONE)


def _unlink(path: str) -> bool:
    try:
        if os.stat(path, follow_symlinks=False).st_uid != os.geteuid():
            return False
        Path(path).unlink()
    except OSError:
        return False
    return True
