"""Writes the files of the run directory, in a thread of its own that a dead disk may keep.

Everything waits in two bounded lanes: worker logs, and everything else (records and
whole files). Beyond the bounds bytes and records are dropped and counted.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from threading import Event, Thread

from resilient.act.bounded_log import BoundedLog
from resilient.act.scribe_files import Appender, write_whole
from resilient.act.scribe_flow import Flow, Lane
from resilient.act.scribe_folder import Folder, find

GATHER_S = 0.02  # small writes are gathered this long: fewer wake-ups beside a training job
GATHER = 256 << 10  # bytes that are not gathered any longer
BATCH = 1 << 20
STALL_S = 0.25


class _Item:
    """Something to write: `name` is below the node's folder, or the run's for a whole file."""

    __slots__ = ("data", "flow", "kind", "name", "omitted")

    def __init__(self, kind: str, name: str, flow: Flow, data: bytes, omitted: int = 0) -> None:
        self.kind = kind  # log, end (of a log), record, file
        self.name = name
        self.flow = flow
        self.data = data
        self.omitted = omitted  # bytes of a log dropped just before `data`


class Disk:
    """The run directory. The public methods are for the reader thread and never wait.

    `wake` is called when the directory is settled, and after
    progress while `notify` is set.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        # The disk, unlike the console, is our own addition: it may hold a channel up only
        # for a second, and one part in a hundred of the time.
        self.logs = Lane(stall_s=STALL_S, allowance_s=1.0, allowance_rate=0.01)
        self.logs.running = False
        self.rest = Lane(total=24 << 20, stall_s=0)
        self.folder: Folder | None = None
        self.settled = False  # whether a folder was found, or none will be
        self.dropped = 0  # records and files lost; reader thread only
        self.failed = 0  # the same; disk thread only
        self.notes: deque[str] = deque()
        self.hurry = Event()
        self.notify = False
        self._wake = wake
        self._limits: Mapping[str, int] = {}
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._flows = {"record": Flow(), "file": Flow()}
        self._logs: dict[str, BoundedLog] = {}
        self._appenders: dict[str, Appender] = {}
        self._reasons: set[str] = set()
        self._opening = False

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be written, or never will be."""
        if not self._opening:
            return True
        return self.settled and not (self.logs.queued or self.rest.queued)

    def open(
        self, candidates: Sequence[str], run_id: str, node: str, limits: Mapping[str, int]
    ) -> None:
        """Finds the run directory in the background, then writes what has waited.

        `limits`: BoundedLog's.
        """
        if not self._opening:
            self._opening = True
            self._limits = limits
            Thread(target=self._run, args=(candidates, run_id, node), daemon=True).start()

    def log(self, stem: str, flow: Flow, data: bytes) -> None:
        """Appends to a worker's log. The caller has asked the lane whether it may."""
        self.logs.took(flow, data)
        self._queue.put(_Item("log", stem, flow, data, flow.lost))
        flow.lost = 0
        if self.logs.queued >= GATHER and not self.hurry.is_set():
            self.hurry.set()

    def end_log(self, stem: str, flow: Flow) -> None:
        """Nothing more comes for this log."""
        if flow.lost:
            self.log(stem, flow, b"")
        self.logs.took(flow, b"")
        self._queue.put(_Item("end", stem, flow, b""))

    def submit(self, kind: str, name: str, data: bytes) -> None:
        """A "record" (one line for `<name>.jsonl`) or a "file" (the whole of it)."""
        flow = self._flows[kind]
        if not self.rest.fits(flow):
            self.dropped += 1
            return
        self.rest.took(flow, data)
        self._queue.put(_Item(kind, name, flow, data))

    def _run(self, candidates: Sequence[str], run_id: str, node: str) -> None:
        self.folder, problems = find(candidates, run_id=run_id, node=node)
        self.notes += problems
        if self.folder is None:
            self.notes.append("no run directory can be written: output goes to the console only")
        self.logs.running = self.folder is not None
        self.settled = True
        self._wake()
        while True:
            self._write(self._gather())
            if self.notify:
                self._wake()

    def _gather(self) -> list[_Item]:
        batch = [self._queue.get()]
        if self.logs.queued < GATHER:
            self.hurry.wait(GATHER_S)
        self.hurry.clear()
        size = len(batch[0].data)
        while size < BATCH and not self._queue.empty():
            batch.append(self._queue.get())
            size += len(batch[-1].data)
        return batch

    def _write(self, batch: list[_Item]) -> None:
        """Writes what belongs together at once; the order within a file stays."""
        groups: dict[tuple[str, str], list[_Item]] = {}
        for item in batch:
            groups.setdefault((item.kind, item.name), []).append(item)
        for (kind, name), items in groups.items():
            if self.folder is None:
                self.failed += len(items) if kind in self._flows else 0
            elif kind == "log":
                self._append_log(self.folder, name, items)
            elif kind == "end":
                log = self._logs.pop(name, None)
                if log is not None:
                    log.close()
            else:
                self._write_files(self.folder, kind, name, items)
            lane = self.rest if kind in self._flows else self.logs
            for item in items:
                lane.wrote(item.flow, item.data)

    def _append_log(self, folder: Folder, name: str, items: list[_Item]) -> None:
        log = self._logs.get(name)
        if log is None:
            log = self._logs[name] = BoundedLog(str(folder.node / name), **self._limits)
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

    def _write_files(self, folder: Folder, kind: str, name: str, items: list[_Item]) -> None:
        """Records of one file in one write; of a file written twice the last content."""
        try:
            if kind == "file":
                write_whole(folder.run / name, items[-1].data)
                return
            appender = self._appenders.get(name)
            if appender is None:
                path = folder.node / f"{name}.jsonl"
                appender = self._appenders[name] = Appender(path)
            appender.append(b"".join(item.data for item in items))
        except OSError as error:
            self.failed += len(items)
            self._complain(f"records are missing in the run directory: {error.strerror or error}")

    def _complain(self, sentence: str) -> None:
        """Each sentence once: a full disk fails at every write."""
        if sentence not in self._reasons:
            self._reasons.add(sentence)
            self.notes.append(sentence)
