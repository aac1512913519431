"""Puts what has been gathered into the files of the run directory (disk thread only)."""

from collections import deque
from collections.abc import Mapping

from resilient.act.bounded_log import BoundedLog
from resilient.act.scribe_files import Appender, write_whole
from resilient.act.scribe_flow import Flow
from resilient.act.scribe_folder import Folder


class Item:
    """Something to write: `name` is below the node's folder, or the run's for a whole file."""

    __slots__ = ("data", "flow", "kind", "name", "omitted")

    def __init__(self, kind: str, name: str, flow: Flow, data: bytes, omitted: int = 0) -> None:
        self.kind = kind  # log, end (of a log), record, file
        self.name = name
        self.flow = flow
        self.data = data
        self.omitted = omitted  # bytes of a log dropped just before `data`


class Writer:
    """The open files. `limits`: BoundedLog's. `failed` counts records and files lost.

    Never raises OSError: a bad disk costs bytes, which are counted and complained of in
    `notes`, each reason once.
    """

    def __init__(self, folder: Folder, limits: Mapping[str, int], notes: "deque[str]") -> None:
        self.failed = 0
        self._folder = folder
        self._limits = limits
        self._notes = notes
        self._logs: dict[str, BoundedLog] = {}
        self._appenders: dict[str, Appender] = {}
        self._reasons: set[str] = set()

    def write(self, kind: str, name: str, items: list[Item]) -> None:
        """Writes items of one kind and name, in their order."""
        if kind == "log":
            self._append_log(name, items)
        elif kind == "end":
            log = self._logs.pop(name, None)
            if log is not None:
                log.close()
        else:
            self._write_file(kind, name, items)

    def _append_log(self, name: str, items: list[Item]) -> None:
        log = self._logs.get(name)
        if log is None:
            log = self._logs[name] = BoundedLog(str(self._folder.node / name), **self._limits)
        parts: list[bytes] = []
        for item in items:
            if item.omitted:
                log.write(b"".join(parts))
                parts = []
                log.omit(item.omitted, "the disk did not keep up")
            parts.append(item.data)
        log.write(b"".join(parts))
        if log.missing:
            self._complain(f"bytes are missing in worker logs: {log.reason}")

    def _write_file(self, kind: str, name: str, items: list[Item]) -> None:
        """Records of one file in one write; of a file written twice the last content."""
        try:
            if kind == "file":
                write_whole(self._folder.run / name, items[-1].data)
                return
            appender = self._appenders.get(name)
            if appender is None:
                path = self._folder.node / f"{name}.jsonl"
                appender = self._appenders[name] = Appender(path)
            appender.append(b"".join(item.data for item in items))
        except OSError as error:
            self.failed += len(items)
            self._complain(f"records are missing in the run directory: {error.strerror or error}")

    def _complain(self, sentence: str) -> None:
        """Each sentence once: a full disk fails at every write."""
        if sentence not in self._reasons:
            self._reasons.add(sentence)
            self._notes.append(sentence)
