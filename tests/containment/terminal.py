"""A real terminal with a real interactive shell in it, and somebody who types."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from containment.surroundings import environment


class Terminal:
    """bash on a pty, as a person has it. Everything that appears is in `screen`."""

    def __init__(self, **variables: str) -> None:
        self._master, slave = pty.openpty()
        self.screen = ""
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment() | {"PS1": "ready> ", "TERM": "dumb", "HISTFILE": ""} | variables,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads
        )
        os.close(slave)
        self.expect("ready> ")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, text: str, seconds: float = 20.0) -> None:
        """Wait until `text` has appeared, and forget everything up to it."""
        end = time.monotonic() + seconds
        while text not in self.screen:
            assert time.monotonic() < end, f"no {text!r} on the screen: {self.screen!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                self.screen += os.read(self._master, 65536).decode(errors="replace")
        self.screen = self.screen.partition(text)[2]

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        if self._master >= 0:
            self.hang_up()
        try:
            self.shell.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.shell.pid, signal.SIGKILL)
            self.shell.wait()
