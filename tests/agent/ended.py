"""What a run of a launcher left: its exit code, its output, its records."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resilient.report.read import RunFolder


@dataclass
class Ended:
    """What a launcher left."""

    code: int
    out: str
    err: str
    notes: list[dict[str, Any]]  # of the script
    seconds: float  # from the launcher's start to its end
    left: list[str] = field(default_factory=list)  # processes that outlived it
    temp: list[str] = field(default_factory=list)  # entries in TMPDIR
    settled: float = 0.0  # seconds from its end until no process was left
    folder: RunFolder | None = None

    @property
    def survivors(self) -> set[str]:
        """Names of the processes that outlived the launcher."""
        return {words.partition("(")[2].rpartition(")")[0] for words in self.left}

    @property
    def run(self) -> RunFolder:
        assert self.folder is not None, f"no run directory:\n{self.err}"
        return self.folder

    @property
    def attempts(self) -> int:
        return self.run.run.attempts

    @property
    def incidents(self) -> list[tuple[str, int | None, str]]:
        """Class, first rank and action of each incident."""
        return [(one.class_, one.first_rank, one.action) for one in self.run.incidents]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Data of the recorded events of a kind, with rank, attempt and time."""
        records = [line.record for line in self.run.events if line.record.kind == kind]
        return [{**r.data, "rank": r.rank, "attempt": r.attempt, "mono": r.mono} for r in records]

    def noted(self, kind: str, **more: Any) -> list[dict[str, Any]]:
        """The script's notes of a kind."""
        return [line for line in self.notes if {"kind": kind, **more}.items() <= line.items()]

    @property
    def logs(self) -> dict[str, str]:
        """Workers' logs in the run directory, by "attempt-0/1/stderr.log"."""
        found = self.run.path.glob("nodes/*/attempt-*/*/*.log")
        return {"/".join(path.parts[-3:]): path.read_text() for path in found}

    @property
    def report(self) -> str:
        """The end of stderr, after torch's own summary."""
        return self.err.rpartition("resilient-run: F")[2]


def lines(path: Path) -> list[dict[str, Any]]:
    """The complete JSON lines of a file that is being written."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
