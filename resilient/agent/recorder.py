"""Everything the agent writes down goes through here, masked, and is kept for the final report.

The files themselves are written by the scribe; where there is none (it could not be started),
the records live on in memory and the report is still printed.
"""

import os
import select
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from resilient.act.scribe_client import Scribe
from resilient.model.decision import DecisionRecord
from resilient.model.event import Event
from resilient.model.incident import Incident
from resilient.model.run import Run
from resilient.report.masking import mask


def masked(value: Any) -> Any:
    """A copy of plain JSON values with everything that looks like a secret masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return value


def say(text: str) -> None:
    """One line to the person at the terminal; dropped rather than waited for when it is blocked."""
    try:
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"resilient-run: {text}\n".encode(errors="replace"))
    except (OSError, ValueError):
        pass


class Recorder:
    """Events, decisions, incidents and the run record of one agent."""

    def __init__(self, scribe: Scribe | None, run: Run) -> None:
        self._scribe = scribe
        self.run = run
        self.incidents: dict[int, Incident] = {}
        self.attempt = 0
        self._folder = ""  # of run.json and the incidents, below the run directory
        self.bugs: Counter[str] = Counter()  # errors of our own, by what we were doing

    def write_for(self, node: str | None) -> None:
        """Write run.json and the incidents for the whole run (None), or below one node's folder.

        Nodes may share the run directory, and only the first of the group writes for the run.
        """
        folder = "" if node is None else f"nodes/{node}/"
        if folder != self._folder:
            self._folder = folder
            self.update_run()
            for incident in self.incidents.values():
                self.incident(incident)

    def event(self, kind: str, rank: int | None = None, **data: Any) -> None:
        """Append to events.jsonl. `data` holds plain JSON values."""
        with self._harmless():
            line = Event(
                at=time.time(),
                mono=time.monotonic(),
                kind=kind,
                attempt=self.attempt,
                rank=rank,
                data=masked(data),
            )
            self._append("events", line)

    def decision(self, record: DecisionRecord) -> None:
        """Append to decisions.jsonl. The evidence must have been masked before it was judged."""
        self._append("decisions", record)

    def incident(self, incident: Incident) -> None:
        """Write incidents/NNNN/incident.json anew, and keep it for the report."""
        self.incidents[incident.number] = incident
        self._write(f"{self._folder}incidents/{incident.number:04d}/incident.json", incident)

    def update_run(self, **changes: Any) -> None:
        """Change the run record and write run.json anew."""
        self.run = msgspec.structs.replace(self.run, **changes)
        if self.run.run_id:
            self._write(f"{self._folder}run.json", self.run)

    def file(self, relative: str, data: bytes) -> None:
        """Write another file under the run directory."""
        with self._harmless():
            if self._scribe is not None:
                self._scribe.write(relative, data)

    def _append(self, file: str, record: msgspec.Struct) -> None:
        with self._harmless():
            if self._scribe is not None:
                self._scribe.record(file, msgspec.json.encode(record))

    def _write(self, relative: str, record: msgspec.Struct) -> None:
        with self._harmless():
            if self._scribe is not None:
                text = msgspec.json.format(msgspec.json.encode(record), indent=1)
                self._scribe.write(relative, text + b"\n")

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        """Writing down what happens must never be what goes wrong."""
        try:
            yield
        except Exception as error:
            self.bugs["writing a record"] += 1
            if self.bugs["writing a record"] == 1:
                say(f"internal error while writing a record ({error!r}); the job goes on")
