"""The launcher's standard streams: pipes, a file, or a pseudo-terminal of known size."""

import errno
import fcntl
import os
import struct
import subprocess
import termios
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

ROWS, COLUMNS = 45, 123


class Streams:
    """Makes the streams, starts a program on them, and collects what it writes.

    After the `with` block, `stdout` and `stderr` hold all that was written.
    """

    def __init__(self, terminal: str, file: Path, stdin: bytes | None) -> None:
        self.terminal, self.file, self.stdin = terminal, file, stdin
        self.stdout = self.stderr = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._threads: list[threading.Thread] = []
        self.held = False  # whether something still had them open ten seconds after the end

    def __enter__(self) -> Self:
        return self

    def start(
        self, command: list[str], *, cwd: Path, env: dict[str, str]
    ) -> "subprocess.Popen[bytes]":
        """Start `command`; what this process does not need of the streams is closed again."""
        out_read, out = self._make("pty", "pty-out")
        error_read, error = self._make("pty-err")
        one = self.terminal in {"pty", "merged", "file"}
        if self.terminal == "pty":
            command = ["setsid", "--ctty", *command]
        if self.terminal == "closed":
            command = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
        source = subprocess.DEVNULL if self.stdin is None else subprocess.PIPE
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=out if self.terminal == "pty" else source,
            stdout=out,
            stderr=out if one else error,
            start_new_session=self.terminal != "pty",
        )
        os.close(out)
        os.close(error)
        self._collect(out_read, "stdout")
        self._collect(error_read, "stderr")
        if self.stdin is not None and self._process.stdin:
            self._process.stdin.write(self.stdin)
            self._process.stdin.close()
        return self._process

    def _make(self, *on_terminal: str) -> tuple[int, int]:
        """Reading and writing end of one stream, on a terminal where the case is one of those."""
        if self.terminal in on_terminal:
            return pair()
        if self.terminal == "file" and on_terminal == ("pty", "pty-out"):
            writing = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            return os.open(self.file, os.O_RDONLY), writing
        return os.pipe()

    def _collect(self, fd: int, name: str) -> None:
        def read() -> None:
            if self.terminal == "file" and self._process:
                self._process.wait()
            parts = []
            while part := read_some(fd):
                parts.append(part)
            os.close(fd)
            setattr(self, name, b"".join(parts))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        self._threads.append(thread)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for thread in self._threads:
            thread.join(10)
            self.held = self.held or thread.is_alive()


def pair() -> tuple[int, int]:
    """A pseudo-terminal of known size."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    return master, slave


def read_some(fd: int) -> bytes:
    """What is there; empty at the end, which a pseudo-terminal reports as an error."""
    try:
        return os.read(fd, 1 << 16)
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise
