"""The scribe's loop: messages in, answers out, and the workers' channels in between.

It runs in the reader thread and waits for nothing but events.
"""

import os
import select
import socket
from time import monotonic

from resilient.act.output_wire import Head, Message, Wire
from resilient.act.scribe_answers import Answers
from resilient.act.scribe_channel import Channel
from resilient.act.scribe_console import Console
from resilient.act.scribe_disk import Disk
from resilient.act.scribe_ending import Ending
from resilient.act.scribe_reader import Reader

REPORT_S = 0.5
TICK_S = 0.05


class Loop:
    """Everything the scribe holds. `run` returns when there is nothing left to do."""

    def __init__(self, control: socket.socket) -> None:
        self.bug = ""  # traceback of a thread that died
        self._wire = Wire(control)
        self._epoll = select.epoll()
        self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._consoles: dict[int, Console] = {}
        self._disk = Disk(self._waker)
        self._reader = Reader(self._epoll, self._ended)
        self._answers = Answers()
        self._ends: list[int] = []  # channels whose end the agent does not know yet
        self._folder_told = False
        self._dropped_told = 0
        self._reported_at = 0.0
        self._ending = Ending(self._reader, self._disk, lambda: [*self._consoles.values()])
        self._epoll.register(self._wire.fileno(), select.EPOLLIN)
        self._epoll.register(self._waker, select.EPOLLIN)

    def wake(self) -> None:
        """From any thread: look round again."""
        os.eventfd_write(self._waker, 1)

    def run(self) -> None:
        """Raises RuntimeError when one of the writer threads has died."""
        while not self._ending.reached():
            busy = self._wire.pending or self._answers.questions or self._ending.since
            due = self._reader.timeout()
            for fd, events in self._epoll.poll(min(due, TICK_S) if busy else due):
                self._event(fd, events)
            self._reader.round()
            self._look_after()
            if self.bug:
                raise RuntimeError(self.bug)
        self._reported_at = 0.0
        if not self._disk.idle:
            self._disk.notes.append(
                "the run directory's disk does not answer: its last records and logs are missing"
            )
        self._look_after()

    def tell(self, answer: Head) -> None:
        """To the agent, if it is still there."""
        if not self._wire.closed:
            self._wire.send(answer)

    def close(self) -> None:
        """Gives the consoles back by name, and lets the agent know that this is the end.

        A thread stuck in the disk may keep the process, and with it all that is open.
        """
        for fd in {console.fd for console in self._consoles.values()}:
            os.close(fd)
        self._wire.close()

    def _event(self, fd: int, events: int) -> None:
        if fd == self._waker:
            os.eventfd_read(self._waker)
        elif fd == self._wire.fileno():
            self._listen()
        elif fd in self._reader.channels:
            self._reader.ready(fd, events)
        else:
            for console in self._consoles.values():
                console.broken = console.broken or console.fd == fd

    def _listen(self) -> None:
        fd = self._wire.fileno()
        for message in self._wire.receive():
            self._obey(message)
        if self._wire.closed:
            self._epoll.unregister(fd)
            self._ending.orphaned()

    def _obey(self, message: Message) -> None:
        head = message.head
        do = head["do"]
        if do in ("record", "file"):
            self._disk.submit(do, head["name"], message.payload)
        elif do == "channel":
            self._open_channel(head, message.fds[0])
        elif do in ("tail", "drain"):
            self._answers.ask(head)
        elif do == "consoles":
            self._open_consoles(head, message.fds)
        elif do == "run":
            self._disk.open(head["candidates"], head["run_id"], head["node"], head["limits"])
        elif do == "bye":
            self._ending.say_goodbye(head["patience"])

    def _open_consoles(self, head: Head, fds: list[int]) -> None:
        for number, fd in zip(head["numbers"], fds, strict=True):
            self._consoles[number] = Console(fd, self.wake)
            if os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:"):
                # Says at once that its last reader has gone, before a write finds out.
                self._epoll.register(fd, select.EPOLLET)
        if head["same"]:
            self._consoles[2] = self._consoles[1]

    def _open_channel(self, head: Head, fd: int) -> None:
        channel = Channel(
            number=head["number"],
            key=(head["attempt"], head["rank"], head["stream"]),
            fd=fd,
            pty=head["pty"],
            console=self._consoles.get(head["console"]),
            disk=self._disk,
        )
        self._answers.opened(channel)
        self._reader.add(channel)

    def _ended(self, channel: Channel) -> None:
        self._ends.append(channel.number)
        self._answers.ended(channel)

    def _break_off(self, console: Console) -> None:
        """Nobody reads this console any more: as without us, its writers are to learn it."""
        for channel in list(self._reader.channels.values()):
            if channel.console is console:
                self._reader.end(channel)

    def _look_after(self) -> None:
        """Everything that is not reading: broken consoles, answers, reports."""
        wanted = bool(self._answers.questions or self._reader.parked or self._ending.since)
        self._disk.notify = wanted
        for console in self._consoles.values():
            console.notify = wanted
            if console.broken:
                self._break_off(console)
            elif console.complaint and not console.complained:
                console.complained = True
                self.tell({"note": console.complaint})
        if self._ends:
            self.tell({"ended": self._ends})
            self._ends = []
        if self._answers.questions:
            for answer in self._answers.ready(self._reader.channels.values()):
                self.tell(answer)
        settled = self._disk.settled  # looked at first: the notes that explain it go first
        while self._disk.notes:
            self.tell({"note": self._disk.notes.popleft()})
        if settled and not self._folder_told:
            self._folder_told = True
            folder = self._disk.folder
            self.tell({"run_dir": str(folder.run) if folder else None})
        self._wire.flush()
        self._report()

    def _report(self) -> None:
        """Now and then: records lost, and whether a goodbye still gets on."""
        now = monotonic()
        if now - self._reported_at < REPORT_S:
            return
        if self._disk.dropped != self._dropped_told:
            self._dropped_told = self._disk.dropped
            self.tell({"dropped": self._dropped_told})
        if self._ending.since and self._ending.moved_since(self._reported_at):
            self.tell({"busy": True})
        self._reported_at = now
