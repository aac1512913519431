"""A folder of our own that holds one executable: a `torchrun` that runs our resilient-run.

It stands on PATH, so whoever may write to it decides what the user runs: it belongs to the
user alone (mode 0700, no link), and so does the folder around it.
"""

import hashlib
import os
import shlex
import stat
import sys
import tempfile
from pathlib import Path

from resilient.model.errors import Misuse

MARK = "# resilient-run shim"  # by which `resilient shim --check` knows the file again


def command() -> list[str]:
    """The argv prefix that starts the resilient-run of this environment. Raises Misuse."""
    if not sys.executable:
        raise Misuse("this Python does not know its own path; start `resilient` by its full path.")
    script = Path(sys.executable).absolute().parent / "resilient-run"
    if os.access(script, os.X_OK) and script.is_file():
        return [str(script)]
    # Not beside the interpreter (pip --user, or not installed). -P: not what lies in the
    # working directory.
    return [sys.executable, "-P", "-m", "resilient.cli.run"]


def prepare() -> Path:
    """Makes the folder, or finds it as it should be; gives its absolute path.

    It lies in the cache directory, else in the temporary one. Raises Misuse where neither can
    hold it, with the reason for each.
    """
    starter = command()
    script = f'#!/bin/sh\n{MARK}\nexec {shlex.join(starter)} "$@"\n'
    name = "shim-" + hashlib.sha256(os.fsencode("\0".join(starter))).hexdigest()[:12]
    reasons = []
    for above in _places():
        try:
            folder = _private(_private(above) / name)
            _write(folder, script)
        except OSError as error:
            reasons.append(f"{above}: {error.strerror or error}")
        else:
            return folder
    raise Misuse(
        "no place for the torchrun shim. Set XDG_CACHE_HOME to a directory of yours that "
        "programs may be run from.\n  " + "\n  ".join(reasons)
    )


def _places() -> list[Path]:
    places = [Path(tempfile.gettempdir()).absolute() / f"resilient-run-{os.geteuid()}"]
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(cache):
        places.insert(0, Path(cache) / "resilient-run")
    elif home := os.environ.get("HOME", ""):
        places.insert(0, Path(home).absolute() / ".cache" / "resilient-run")
    return places


def _private(folder: Path) -> Path:
    """The folder, made where it is missing, for this user alone; else raises OSError."""
    if ":" in str(folder):
        raise OSError(f"{folder} cannot stand on PATH: it has a colon in it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise OSError(f"{folder} is no directory") from None
        if found.st_uid != os.geteuid():
            raise OSError(f"{folder} belongs to user {found.st_uid}, not to you") from None
        if found.st_mode & 0o022:  # somebody may have put programs there
            raise OSError(f"others may write to {folder}; remove it") from None
        if found.st_mode & 0o055:
            folder.chmod(0o700)
    return folder


def _write(folder: Path, script: str) -> None:
    """Puts the script there in one step; one that another process just put there is as good."""
    target = folder / "torchrun"
    data = os.fsencode(script)
    if not (_is_ours(target) and target.read_bytes() == data):
        number, temporary = tempfile.mkstemp(prefix=".torchrun-", dir=folder)
        try:
            with open(number, "wb") as stream:
                stream.write(data)
                os.fchmod(number, 0o700)
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    if not os.access(target, os.X_OK):
        raise OSError("programs may not be run from there (mounted noexec?)")


def _is_ours(target: Path) -> bool:
    try:
        found = target.lstat()
    except FileNotFoundError:
        return False
    mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return mine and stat.S_IMODE(found.st_mode) == 0o700
