"""A host of the laboratory, and the processes that a test starts on it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.ended import lines

from resilient.sense.processes import Proc, descendants, stat

MACHINE = Path(__file__).with_name("machine.py")
NAMESPACES = ("--net", "--uts", "--ipc", "--mount", "--pid", "--mount-proc")
_NOT_THERE = ("XDG_RUNTIME_DIR", "TMPDIR", "PYTHONPATH")
NETWORKS = {"ib": 1, "eth": 2}  # third part of their addresses


def inherited() -> dict[str, str]:
    """Environment of this process that makes sense on a host."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_THERE}


class Process:
    """One that was started on a host. `pid` is its number there."""

    def __init__(self, host: "Host", number: int, reply: dict[str, Any], out: Path, err: Path):
        self.host, self._number = host, number
        self.pid: int = reply["pid"]
        self.began: float = reply["at"]
        self._out, self._err = out, err

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def end(self) -> dict[str, Any] | None:
        """{"at", "code", "left"}: when and how it ended and what lived on, None while it runs."""
        return next((line for line in self.host.report if line.get("ended") == self._number), None)

    @property
    def code(self) -> int | None:
        return self.end["code"] if self.end else None

    def signal(self, signum: int) -> None:
        self.host.signal(signum, self.pid)

    def wait(self, seconds: float = 60.0) -> int:
        """Its exit code, or minus the number of the signal that ended it."""
        end = self.host.until(lambda: self.end, f"the end of process {self.pid}", seconds)
        return int(end["code"])


class Host:
    """Namespaces, held by one process (`machine.py`), through which everything is started.

    Ready once `await_up` has returned. `init` is that process, by its number outside.
    """

    def __init__(self, number: int, name: str, folder: Path, hosts_file: Path, owner: int) -> None:
        self.number, self.name, self.folder = number, name, folder
        self.temp = folder / "tmp"
        self.temp.mkdir(parents=True)
        self.init = 0
        self._requests = 0
        self._report = folder / "machine.jsonl"
        words = [name, self._report, hosts_file, self.temp, owner]
        machine = [sys.executable, "-I", "-S", MACHINE, *words]
        with (folder / "machine.err").open("wb") as err:
            self._unshare = subprocess.Popen(
                ["unshare", *NAMESPACES, "--fork", "--kill-child", *map(str, machine)],
                stdin=subprocess.PIPE,
                stdout=err,
                stderr=err,
                pass_fds=[owner],
                start_new_session=True,  # a Ctrl-C to pytest is not for the host
            )

    def await_up(self) -> None:
        self.until(lambda: self.report, f"{self.name} to be up")
        self.init = descendants(self._unshare.pid)[0].pid

    @property
    def report(self) -> list[dict[str, Any]]:
        return lines(self._report)

    def address(self, network: str = "eth") -> str:
        """Its address in one of the two networks."""
        return f"10.77.{NETWORKS[network]}.{self.number + 1}"

    def until(self, condition: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
        """Wait until something is the case, and return it."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            told = (self.folder / "machine.err").read_text()
            assert self._unshare.poll() is None, f"{self.name} is down; {what}\n{told}"
            assert time.monotonic() < end, f"waited in vain for {what}\n{told}"
            time.sleep(0.003)
        return found

    def _ask(self, **request: Any) -> dict[str, Any]:
        """Have something done by the host's first process; its reply, once it is done."""
        self._requests += 1
        number = self._requests
        assert self._unshare.stdin is not None
        self._unshare.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
        self._unshare.stdin.flush()
        reply: dict[str, Any] = self.until(
            lambda: next((line for line in self.report if line.get("reply") == number), None),
            f"a reply of {self.name}",
        )
        if "error" in reply:
            raise OSError(f"{self.name}: {reply['error']} ({request})")
        return reply

    def start(
        self,
        *command: object,
        name: str = "process",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Process:
        """Start a process. Its output goes to new files in the host's folder."""
        out, err = (self.folder / f"{self._requests}-{name}.{which}" for which in ("out", "err"))
        reply = self._ask(
            argv=[str(word) for word in command],
            env=dict(inherited() if env is None else env),
            cwd=str(cwd or self.folder),
            out=str(out),
            err=str(err),
        )
        return Process(self, self._requests, reply, out, err)

    def run(self, *command: object, seconds: float = 30.0, code: int = 0, **more: Any) -> str:
        """Its output, when it has ended with `code`."""
        process = self.start(*command, **more)
        assert process.wait(seconds) == code, f"{command}: {process.code}\n{process.err}"
        return process.out

    def signal(self, signum: int, pid: int = -1) -> float:
        """To a process, or to all of the host at once; the time at which it was sent."""
        return float(self._ask(signal=int(signum), pid=pid)["at"])

    @property
    def processes(self) -> list[Proc]:
        """All that run on it, by their numbers outside, without its first one."""
        space = os.readlink(f"/proc/{self.init}/ns/pid")
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(OSError):
                inside = os.readlink(f"/proc/{pid}/ns/pid") == space and pid != self.init
                if inside and (proc := stat(pid)) and proc.state not in "ZX":
                    found.append(proc)
        return found

    def alive(self, pid: int) -> bool:
        """Whether a process runs, by its number on the host (a zombie does not)."""
        try:
            words = Path(f"/proc/{self.init}/root/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return words.rpartition(")")[2].split()[0] not in "ZX"

    def configure(self, *command: str, text: str = "") -> None:
        """Run a tool of ours inside the host's network only."""
        inside = ["nsenter", "-t", str(self.init), "-n", *command]
        done = subprocess.run(inside, input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{self.name}: {command}: {done.stderr}\n{text}"

    def close(self) -> None:
        """End it and everything on it."""
        assert self._unshare.stdin is not None
        with contextlib.suppress(OSError):
            self._unshare.stdin.close()
        try:
            self._unshare.wait(10)
        except subprocess.TimeoutExpired:
            os.kill(self.init or self._unshare.pid, signal.SIGKILL)
            self._unshare.wait()
