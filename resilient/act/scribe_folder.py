"""Finds the run directory: the first candidate in which this node's files can be written.

Runs in the scribe. A candidate on a hung disk keeps its own thread for ever; the next
candidate is tried after `deadline_s`.
"""

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

DEADLINE_S = 2.0  # per candidate; an automounter that needs longer is not waited for
_PROBE = b"\0" * 4096  # a full disk takes an empty file but not this


class Folder:
    """The run directory that was found and this node's own folder in it."""

    __slots__ = ("node", "run")

    def __init__(self, run: Path, node: Path) -> None:
        self.run = run
        self.node = node


def find(
    candidates: Sequence[str], *, run_id: str, node: str, deadline_s: float = DEADLINE_S
) -> tuple[Folder | None, list[str]]:
    """The first candidate that can be written, and a sentence for each that cannot."""
    problems: list[str] = []
    for candidate in candidates:
        attempt = _Attempt(Path(candidate), run_id, node)
        attempt.ended.wait(deadline_s)
        if attempt.folder is not None:
            run = attempt.folder.run
            if problems:
                problems[-1] += f"; the records are in {run}"
            else:  # a link in the temporary directory would be everybody's
                _link_latest(run)
            return attempt.folder, problems
        attempt.abandoned = True
        why = attempt.problem or f"no answer from the disk within {deadline_s:g} s"
        problems.append(f"cannot write the run directory {candidate}: {why}")
    return None, problems


class _Attempt:
    """Tries one candidate in a thread of its own, which a hung disk may never give back."""

    def __init__(self, candidate: Path, run_id: str, node: str) -> None:
        self.folder: Folder | None = None
        self.problem = ""
        self.ended = Event()
        self.abandoned = False
        self._made: list[Path] = []
        self._args = (candidate, run_id, node)
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            folder = self._prepare(*self._args)
        except OSError as error:
            self.problem = error.strerror or str(error)
            self._undo()
        else:
            if self.abandoned:
                self._undo()
            else:
                self.folder = folder
        self.ended.set()

    def _prepare(self, candidate: Path, run_id: str, node: str) -> Folder:
        candidate.parent.mkdir(parents=True, exist_ok=True)
        self._make(candidate)
        run = candidate
        if _run_id_in(candidate) not in (None, run_id):
            run = candidate / run_id
            self._make(run)
        self._make(run / "nodes")
        folder = Folder(run, run / "nodes" / node)
        self._make(folder.node)
        probe = folder.node / f".probe-{secrets.token_hex(4)}"
        try:
            probe.write_bytes(_PROBE)
        finally:
            probe.unlink(missing_ok=True)
        return folder

    def _make(self, path: Path) -> None:
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            _refuse_strangers(path)
        else:
            self._made.append(path)

    def _undo(self) -> None:
        """Removes the directories that we made and that nobody has used since."""
        for path in reversed(self._made):
            try:
                path.rmdir()
            except OSError:
                return


def _run_id_in(directory: Path) -> str | None:
    """The id of the run that `directory` already belongs to; "" when it cannot be read."""
    try:
        found = json.loads((directory / "run.json").read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return ""
    return str(found.get("run_id", "")) if isinstance(found, dict) else ""


def _refuse_strangers(path: Path) -> None:
    """In a shared temporary directory only a directory of our own will do."""
    parent = path.parent.stat()
    if not (parent.st_mode & stat.S_ISVTX and parent.st_mode & stat.S_IWOTH):
        if not path.is_dir():
            raise NotADirectoryError(20, "it is not a directory")
        return
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(1, "it exists and belongs to somebody else")


def _link_latest(run: Path) -> None:
    """Points `latest`, beside `run`, at it; leaves anything that is not a link alone."""
    link = run.with_name("latest")
    new = run.with_name(f".latest-{secrets.token_hex(4)}")
    try:
        if link.is_symlink() or not link.exists():
            new.unlink(missing_ok=True)
            new.symlink_to(run.name)
            new.replace(link)
    except OSError:  # a convenience only
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
