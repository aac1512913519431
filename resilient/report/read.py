"""Reads a run directory. Everything in it is data from elsewhere: checked, never trusted.

A last line without its end is what a killed or still running job leaves: it is left out and
said. Any other damage is Misuse that names the file, the line and the way out.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from resilient.model.decision import DecisionRecord
from resilient.model.errors import Misuse
from resilient.model.event import Event
from resilient.model.incident import Incident
from resilient.model.membership import GroupRecord
from resilient.model.run import Run

SCHEMA = 1  # the newest that this version reads
_T = TypeVar("_T", Run, Incident, DecisionRecord, GroupRecord, Event)
# A decision of one node is read as one of a group that has no case.
_NAMES: dict[type, str] = {GroupRecord: DecisionRecord.__name__}
_BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True)
class Line(Generic[_T]):
    """One record of a JSON Lines file, and where it stands."""

    file: Path
    number: int  # counted from 1
    record: _T


@dataclass
class RunFolder:
    """A run directory over all its nodes. `notes` grows with what had to be left out."""

    path: Path
    run: Run
    incidents: tuple[Incident, ...]
    notes: list[str] = field(default_factory=list)

    @cached_property
    def decisions(self) -> tuple[Line[GroupRecord], ...]:
        """All nodes' decisions in order of time. Raises Misuse where a file is damaged."""
        return self._records("decisions.jsonl", GroupRecord)

    @cached_property
    def events(self) -> tuple[Line[Event], ...]:
        """All nodes' events in order of time. Raises Misuse where a file is damaged."""
        return self._records("events.jsonl", Event)

    def _records(self, name: str, type_: type[_T]) -> tuple[Line[_T], ...]:
        found = [
            line
            for file in sorted(self.path.glob(f"nodes/*/{name}"))
            for line in _lines(file, type_, self.notes)
        ]
        return tuple(sorted(found, key=_when))


def _when(line: Line[Any]) -> float:
    at: float = line.record.at
    return at


def find(path: Path) -> Path:
    """The run directory that `path` means: itself, or the latest one in it. Raises Misuse."""
    for candidate in (path, path / "latest"):
        if _heads(candidate):
            return candidate.resolve()
    if path.is_dir():
        raise Misuse(
            f"{path} is no run directory: it holds no run.json. Give the directory that "
            "resilient-run names in its report, or one that holds a `latest` link."
        )
    if path.exists():
        raise Misuse(f"{path} is no directory. Give the run directory, not a file in it.")
    raise Misuse(
        f"{path} does not exist. Give the run directory as an argument; by default it is "
        "resilient-runs/latest in the directory where resilient-run was started."
    )


def load(run_dir: Path) -> RunFolder:
    """The run directory `run_dir` or the latest in it; nodes' files are read when asked for.

    Raises Misuse where it is none, cannot be read, or is damaged.
    """
    try:
        path = find(run_dir)
    except OSError as error:  # e.g. a directory above it that we may not enter
        raise _unreadable(run_dir, error) from None
    head = _heads(path)[0]
    run = _document(head / "run.json", Run)
    incidents = [_document(file, Incident) for file in head.glob("incidents/*/incident.json")]
    return RunFolder(path, run, tuple(sorted(incidents, key=lambda one: one.number)))


def _heads(path: Path) -> list[Path]:
    """Folders that hold a run.json: the run's own, else one of a node that is not the first.

    Where nodes do not share a file system, each has the run directory with its own part only.
    """
    own = [path] if (path / "run.json").is_file() else []
    return own or sorted(file.parent for file in path.glob("nodes/*/run.json"))


def _document(file: Path, type_: type[_T]) -> _T:
    data = _read(file)
    try:
        return _decode(data, type_, str(file))
    except ValueError as error:
        raise Misuse(
            f"{file}: {error}. It is written whole or not at all, so it was damaged later: take "
            "it from a copy, or move it away to see the rest."
        ) from None


def _lines(file: Path, type_: type[_T], notes: list[str]) -> Iterator[Line[_T]]:
    lines = _read(file).split(b"\n")
    for number, data in enumerate(lines, 1):
        if not data.strip():
            continue
        where = f"{file}:{number}"
        try:
            yield Line(file, number, _decode(data, type_, where))
        except ValueError as error:
            if number < len(lines):
                raise Misuse(
                    f"{where}: {error}. Take the file from a copy, or drop this record: "
                    f"sed -i {number}d {shlex.quote(str(file))}"
                ) from None
            # Nothing ends it: its writer was killed, or is about to go on.
            notes.append(f"{where}: the last line is cut off and was left out.")


def _read(file: Path) -> bytes:
    if file.exists() and not file.is_file():
        raise Misuse(f"{file} is no regular file. Move it away.")
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: OSError) -> Misuse:
    return Misuse(f"{file}: {error.strerror}. Read it as the user who started the job.")


def _decode(data: bytes, type_: type[_T], where: str) -> _T:
    """Raises ValueError with the reason in words, and Misuse for a record of the future."""
    try:
        record = msgspec.json.decode(data, type=type_)
        schema = record.schema
    except _BROKEN as error:
        schema = _schema(data)
        if schema <= SCHEMA:
            name = _NAMES.get(type_, type_.__name__)
            raise ValueError(f"this is no {name} record ({error})") from None
    if schema > SCHEMA:
        raise Misuse(
            f"{where}: written by a newer resilient-run (schema {schema}, this one reads "
            f"{SCHEMA}). Read it with that version."
        )
    return record


def _schema(data: bytes) -> int:
    """The schema that a record of any shape names; 0 where it names none."""
    try:
        named = msgspec.json.decode(data, type=dict[str, Any]).get("schema")
    except _BROKEN:
        return 0
    return named if isinstance(named, int) else 0
