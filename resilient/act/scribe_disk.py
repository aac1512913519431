"""Writes the files of the run directory, in a thread of its own that a dead disk may keep.

Everything waits in two bounded lanes: worker logs, and everything else (records and
whole files). Beyond the bounds bytes and records are dropped and counted.
"""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from threading import Event, Thread

from resilient.act.scribe_apart import part_descriptors
from resilient.act.scribe_flow import Flow, Lane
from resilient.act.scribe_folder import Folder, find
from resilient.act.scribe_writer import Item, Writer

GATHER_S = 0.02  # small writes are gathered this long: fewer wake-ups beside a training job
GATHER = 256 << 10  # bytes that are not gathered any longer
BATCH = 1 << 20
STALL_S = 0.25


class Disk:
    """The run directory. The public methods are for the reader thread and never wait.

    `waker` is an eventfd: written to when the directory is settled, and after progress
    while `notify` is set.
    """

    def __init__(self, waker: int) -> None:
        # The disk, unlike the console, is our own addition: it may hold a channel up only
        # for a second, and one part in a hundred of the time.
        self.logs = Lane(stall_s=STALL_S, allowance_s=1.0, allowance_rate=0.01)
        self.logs.running = False
        self.rest = Lane(total=24 << 20, stall_s=0)
        self.folder: Folder | None = None
        self.settled = False  # whether a folder was found, or none will be
        self.notes: deque[str] = deque()
        self.hurry = Event()
        self.notify = False
        self._waker = waker
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._flows = {"record": Flow(), "file": Flow()}
        self._refused = 0  # records and files lost here; reader thread only
        self._unwritten = 0  # the same for want of a folder; disk thread only
        self._writer: Writer | None = None
        self._opening = False

    @property
    def dropped(self) -> int:
        """Records and files lost so far."""
        return self._refused + self._unwritten + (self._writer.failed if self._writer else 0)

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
            args = (candidates, run_id, node, limits)
            Thread(target=self._run, args=args, daemon=True).start()

    def log(self, stem: str, flow: Flow, data: bytes) -> None:
        """Appends to a worker's log. The caller has asked the lane whether it may."""
        self.logs.took(flow, data)
        self._queue.put(Item("log", stem, flow, data, flow.lost))
        flow.lost = 0
        if self.logs.queued >= GATHER and not self.hurry.is_set():
            self.hurry.set()

    def end_log(self, stem: str, flow: Flow) -> None:
        """Nothing more comes for this log."""
        if flow.lost:
            self.log(stem, flow, b"")
        self.logs.took(flow, b"")
        self._queue.put(Item("end", stem, flow, b""))

    def submit(self, kind: str, name: str, data: bytes) -> None:
        """A "record" (one line for `<name>.jsonl`) or a "file" (the whole of it)."""
        flow = self._flows[kind]
        if not self.rest.fits(flow):
            self._refused += 1
            return
        self.rest.took(flow, data)
        self._queue.put(Item(kind, name, flow, data))

    def _run(
        self, candidates: Sequence[str], run_id: str, node: str, limits: Mapping[str, int]
    ) -> None:
        part_descriptors(self._waker)
        self.folder, problems = find(candidates, run_id=run_id, node=node)
        self.notes += problems
        if self.folder is not None:
            self._writer = Writer(self.folder, limits, self.notes)
            self.logs.running = True
        else:
            self.notes.append("no run directory can be written: output goes to the console only")
        self.settled = True
        os.eventfd_write(self._waker, 1)
        while True:
            self._write(self._gather())
            if self.notify:
                os.eventfd_write(self._waker, 1)

    def _gather(self) -> list[Item]:
        batch = [self._queue.get()]
        if self.logs.queued < GATHER:
            self.hurry.wait(GATHER_S)
        self.hurry.clear()
        size = len(batch[0].data)
        while size < BATCH and not self._queue.empty():
            batch.append(self._queue.get())
            size += len(batch[-1].data)
        return batch

    def _write(self, batch: list[Item]) -> None:
        """Writes what belongs together at once; the order within a file stays."""
        groups: dict[tuple[str, str], list[Item]] = {}
        for item in batch:
            groups.setdefault((item.kind, item.name), []).append(item)
        for (kind, name), items in groups.items():
            if self._writer is not None:
                self._writer.write(kind, name, items)
            elif kind in self._flows:
                self._unwritten += len(items)
            lane = self.rest if kind in self._flows else self.logs
            for item in items:
                lane.wrote(item.flow, item.data)
