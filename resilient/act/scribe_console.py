"""Writes to one console (what the agent's own stdout or stderr is), in a thread of its own.

The thread may be blocked for as long as nobody reads the console; only bytes that wait
in the bounded queue are held up by that, never a worker.
"""

import errno
import os
import select
import stat
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import monotonic

from resilient.act.scribe_flow import Flow, Lane

STALL_S = 1.0  # a console that takes nothing for this long is treated as blocked
BATCH = 64 << 10
_GONE = {errno.EPIPE, errno.ECONNRESET}


class Console:
    """One console. `wake` is called after progress while `notify` is set."""

    def __init__(self, fd: int, wake: Callable[[], None]) -> None:
        self.fd = fd
        self.lane = Lane(stall_s=STALL_S)
        self.broken = False  # nobody will ever read it again
        self.complaint = ""  # why it refused bytes (a full disk, a terminal hung up)
        self.complained = False  # whether the agent knows
        self.notify = False
        self.is_pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
        self._wake = wake
        self._queue: SimpleQueue[tuple[Flow, bytes]] = SimpleQueue()
        Thread(target=self._run, daemon=True).start()

    def put(self, flow: Flow, data: bytes) -> None:
        """Queues `data`; the caller has asked the lane whether it may."""
        self.lane.took(flow, data)
        self._queue.put((flow, data))

    def _run(self) -> None:
        while True:
            batch = [self._queue.get()]
            size = len(batch[0][1])
            while size < BATCH and not self._queue.empty():
                batch.append(self._queue.get())
                size += len(batch[-1][1])
            if not self.broken:
                self._write(b"".join(data for _, data in batch))
            for flow, data in batch:
                self.lane.wrote(flow, data)
            if self.notify or self.broken or (self.complaint and not self.complained):
                self._wake()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        start = 0
        while start < len(data):
            try:
                start += os.write(self.fd, view[start : self._piece(data, start)])
            except BlockingIOError:  # somebody made the shared description non-blocking
                select.select([], [self.fd], [], 1.0)
            except OSError as error:
                self.broken = error.errno in _GONE
                self.complaint = f"output is missing on the console: {error.strerror}"
                return
            else:
                self.lane.progress_at = monotonic()

    def _piece(self, data: bytes, start: int) -> int:
        """Where one write is to end: a pipe takes up to PIPE_BUF bytes in one piece.

        So whole lines stay whole even where others write to the same pipe.
        """
        end = start + select.PIPE_BUF
        if not self.is_pipe or end >= len(data):
            return len(data)
        return data.rfind(b"\n", start, end) + 1 or end
