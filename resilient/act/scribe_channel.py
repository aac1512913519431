"""One worker's output on its way: to the console, to its log, to the remembered tail."""

from resilient.act.output_tail import Tail
from resilient.act.scribe_console import Console
from resilient.act.scribe_disk import Disk
from resilient.act.scribe_flow import DROP, TAKE, WAIT, Flow


class Channel:
    """The read end of one worker's output, and what is known about it.

    `key`: attempt, rank, stream ("stdout", "stderr" or "output" for both in one).
    """

    def __init__(
        self,
        *,
        number: int,
        key: tuple[int, int, str],
        fd: int,
        pty: bool,
        console: Console | None,
        disk: Disk,
    ) -> None:
        self.number = number
        self.attempt, self.rank, self.stream = key
        self.fd = fd
        self.pty = pty
        self.console = console
        self.tail = Tail()
        self.carry = b""  # the start of a line whose rest is about to be read
        self.settling_since = 0.0  # since when `carry` may wait for its rest; 0: not yet
        self.hung_up = False  # all writers have gone; read on until the end
        self._disk = disk
        self._stem = f"attempt-{self.attempt}/{self.rank}/{self.stream}"
        self._shown = Flow()
        self._logged = Flow()
        self._verdicts = (TAKE, TAKE)
        self._ended_line = True  # whether the last byte shown ended a line

    @property
    def flowing(self) -> bool:
        """Whether something still waits for the console."""
        return self._shown.queued > 0

    def admitted(self, now: float) -> bool:
        """Whether to read now; what is read then goes where the lanes said."""
        shown = self.console.lane.admit(self._shown, now) if self.console else DROP
        logged = self._disk.logs.admit(self._logged, now)
        if WAIT in (shown, logged):
            return False
        self._verdicts = (shown, logged)
        return True

    def deliver(self, data: bytes) -> None:
        """Hands bytes on, or counts them as lost."""
        if not data:
            return
        shown, logged = self._verdicts
        self.tail.add(data)
        if logged == TAKE:
            self._disk.log(self._stem, self._logged, data)
        else:
            self._logged.lost += len(data)
        if shown == TAKE and self.console is not None:
            self._tell_lost(self.console)
            self.console.put(self._shown, data)
            self._ended_line = data.endswith(b"\n")
        else:
            self._shown.lost += len(data)

    def finish(self) -> None:
        """Nothing more will be read."""
        carry, self.carry = self.carry, b""
        self.deliver(carry)
        if self.console is not None:
            self._tell_lost(self.console)
        self._disk.end_log(self._stem, self._logged)

    def _tell_lost(self, console: Console) -> None:
        lost, self._shown.lost = self._shown.lost, 0
        if lost and not console.broken:
            folder = self._disk.folder
            where = f"see {folder.node / self._stem}.log" if folder else "there is no log of it"
            text = f"[resilient-run: {lost} bytes of rank {self.rank} not shown here; {where}]\n"
            start = "" if self._ended_line else "\n"
            console.put(self._shown, (start + text).encode("utf-8", "surrogateescape"))
            self._ended_line = True
