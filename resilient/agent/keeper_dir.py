"""The run's private directory on this node: unix sockets and the like, mode 0700.

Made by the keeper before the agent exists, removed by the keeper at the very end, or by the
agent where the keeper has died. Without a keeper (used as a library) it is made on first use
and removed at exit.
"""

import atexit
import contextlib
import os
import shutil
import tempfile

from resilient.model.errors import Unavailable

_PREFIX = "rr-"
_LONGEST = 80  # a unix socket's path ends at 107 bytes, and needs room for its name

_path: str | None = None
_owner = 0  # pid of the process that removes it: a forked child inherits both and must not


def private_dir() -> str:
    """Path of the directory. Raises `Unavailable` where no place for one can be found."""
    if _path is None:
        make()
        atexit.register(discard)
    if _path is None:
        raise Unavailable(
            f"no directory for sockets: nothing can be made in {' or '.join(_places())}; "
            "set TMPDIR to a directory that can be written to"
        )
    return _path


def make() -> None:
    """Make the directory; this process is to remove it. Nothing happens where none can be made."""
    global _path, _owner
    for place in _places():
        with contextlib.suppress(OSError):
            _path, _owner = tempfile.mkdtemp(prefix=_PREFIX, dir=place), os.getpid()
            return


def discard() -> None:
    """Remove the directory, in the process that has to do it; elsewhere nothing happens."""
    if _path is not None and os.getpid() == _owner:
        shutil.rmtree(_path, ignore_errors=True)


def inherit(keeper: int) -> None:
    """Called in the agent: at its exit it removes the directory if `keeper` no longer lives."""
    atexit.register(_discard_as_heir, os.getpid(), keeper)


def _discard_as_heir(heir: int, keeper: int) -> None:
    if _path is not None and os.getpid() == heir and os.getppid() != keeper:
        shutil.rmtree(_path, ignore_errors=True)


def _places() -> list[str]:
    """Where to try, best first; a long path only when there is no short one."""
    places = [os.environ.get("XDG_RUNTIME_DIR", "")]
    with contextlib.suppress(FileNotFoundError):
        places.append(tempfile.gettempdir())
    places.append("/tmp")  # noqa: S108 - mkdtemp is safe there
    return sorted(filter(os.path.isabs, places), key=lambda place: len(place) > _LONGEST)
