"""The agent's side of output capture and of the run directory.

`Scribe` makes the workers' channels and hands their read ends to the scribe process,
to which it also sends everything that is to be written. It never touches a disk, never
waits except in `tail`, `drain` and `close` (which say for how long), and uses no
thread. The agent keeps the read ends open too: a scribe that is killed takes no
worker's output down with it (`revive`).
"""

import os
from collections.abc import Sequence
from pathlib import PurePath

from resilient.act.channels import Outputs, copy_window_size
from resilient.act.output_wire import Head
from resilient.act.scribe_link import Link
from resilient.act.scribe_outputs import make_outputs

_TAIL_SLACK_S = 0.5  # for the answer itself, beyond the time the scribe may wait


class Scribe:
    """A running scribe process. Make one with `start`.

    Register `fileno()` with the agent's loop and call `poll()` when it is readable.
    """

    def __init__(self) -> None:
        self._link = Link()
        self._closed = False

    @classmethod
    def start(cls) -> "Scribe":
        """Starts the process and returns at once. Raises OSError when that is impossible."""
        return cls()

    @property
    def pid(self) -> int:
        return self._link.pid

    @property
    def run_dir(self) -> str | None:
        """The run directory, once `poll` has read that one was found."""
        return self._link.run_dir

    def fileno(self) -> int:
        """Readable when `poll` has something to do; the number never changes."""
        return self._link.fileno()

    def poll(self) -> tuple[str, ...]:
        """Reads answers, sends what waits; returns sentences for the event log."""
        if not self._closed:
            self._link.turn(0)
        notes, self._link.notes = tuple(self._link.notes), []
        return notes

    def revive(self) -> bool:
        """Starts another process if this one has died (at most one a second); True if so.

        Call it after each `poll`: it costs nothing while the process lives. Workers
        notice nothing; what the dead one held in memory is lost.
        """
        return not self._closed and self._link.revive()

    def close(self, timeout_s: float = 2.0) -> None:
        """Has everything written and ends the process. Idempotent.

        Gives up when neither console nor disk has moved for `timeout_s`: a process that
        hangs on a dead disk is left behind. Channels still open are closed: end all
        processes of the run first. `poll` then still returns the last sentences.
        """
        if not self._closed:
            self._closed = True
            self._link.close(timeout_s)

    # What the scribe is told

    def open_run(
        self,
        candidates: Sequence[str],
        *,
        run_id: str,
        node: str,
        head_mib: int = 4,
        tail_mib: int = 60,
    ) -> None:
        """Looks for the run directory in the background; the first writable candidate wins.

        `head_mib` and `tail_mib` bound each worker log: its first MiB, and its last,
        the latter in four files. Call it once.
        """
        self._link.run = {
            "do": "run",
            "candidates": [_absolute(path) for path in candidates],
            "run_id": run_id,
            "node": node,
            "limits": {"head": head_mib << 20, "segment": (max(tail_mib, 1) << 20) // 4, "keep": 4},
        }
        self._link.send(self._link.run)

    def record(self, file: str, line: bytes) -> None:
        """Appends one line to `nodes/<node>/<file>.jsonl`. Never waits; may drop, counted.

        Secrets are masked by the caller. Raises ValueError for a name with a path in it.
        """
        if PurePath(file).name != file:
            raise ValueError(f"not a plain name: {file!r}")
        line = line if line.endswith(b"\n") else line + b"\n"
        self._submit({"do": "record", "name": file}, line)

    def write(self, relative: str, data: bytes) -> None:
        """Writes a whole file below the run directory, atomically. As `record` otherwise."""
        path = PurePath(relative)
        if path.is_absolute() or ".." in path.parts or not path.name:
            raise ValueError(f"not a path below the run directory: {relative!r}")
        self._submit({"do": "file", "name": relative}, data)

    def _submit(self, head: Head, data: bytes) -> None:
        if not self._closed:
            self._link.send(head, data, droppable=True)

    def outputs(
        self, *, attempt: int, rank: int, stdout: bool, stderr: bool, console: bool
    ) -> Outputs:
        """Makes the channels of one worker: see `make_outputs`. Raises OSError."""
        if self._closed:
            return Outputs(None, None)
        streams = {number for number, wanted in ((1, stdout), (2, stderr)) if wanted}
        return make_outputs(
            self._link, attempt=attempt, rank=rank, streams=streams, console=console
        )

    def window_size(self) -> None:
        """Gives the workers' terminals the size of ours; call it on SIGWINCH."""
        for held in self._link.held.values():
            if held.pty and held.console is not None:
                copy_window_size(held.console, held.read_fd)

    # What the scribe is asked

    def tail(
        self, attempt: int, rank: int, *, lines: int = 20, timeout_s: float = 0.5
    ) -> tuple[str, ...]:
        """The rank's last lines on stderr (else its output), once its channels have ended.

        After `timeout_s`, what is there. Untrusted text, but free of control characters.
        """
        question = {"do": "tail", "attempt": attempt, "rank": rank}
        question |= {"lines": lines, "timeout": timeout_s}
        if self._closed:
            return ()
        return tuple(self._link.ask(question, timeout_s + _TAIL_SLACK_S) or ())

    def drain(self, attempt: int, *, timeout_s: float) -> bool:
        """Waits until all that the attempt printed is on the console; False: not in time.

        `timeout_s` may be infinite: as under torchrun, where a worker ends when the
        console has taken its output.
        """
        question = {"do": "drain", "attempt": attempt}
        return not self._closed and bool(self._link.ask(question, timeout_s))

    def dropped(self) -> int:
        """Records and files lost so far, here and (as last reported) in the scribe."""
        return self._link.dropped


def _absolute(path: str) -> str:
    """The scribe works in `/`. A relative path in a directory that is gone leads nowhere."""
    try:
        return os.path.abspath(path)
    except OSError:
        return f"/proc/{os.getpid()}/cwd/{path}"
