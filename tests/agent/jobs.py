"""One real run of resilient-run (or torchrun), and what it was when it had ended."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent.ended import Ended, lines
from resilient.cli import explain
from resilient.cli.answer import Screen
from resilient.report.read import load
from resilient.sense.processes import Proc, descendants, stat

WARDEN = Path(__file__).with_name("warden.py")
LIMIT_S = 100.0
_NOT_OURS = ("XDG_RUNTIME_DIR", "PYTHONPATH")
_CACHES = ("torchinductor_",)  # torch's own, kept from run to run
_QUIET = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}


class Job:
    """A launcher that runs in `folder`. By default nothing of it may be left at its end."""

    def __init__(
        self,
        folder: Path,
        command: Sequence[object],
        env: dict[str, str] | None = None,
        *,
        grace_s: float = 0.0,
        **popen: Any,
    ) -> None:
        self.folder, self.temp = folder, folder / "tmp"
        self.temp.mkdir(exist_ok=True)
        self.run_dir = Path((env or {}).get("RESILIENT_RUN_DIR", folder / "run"))
        given = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
        given |= {"RESILIENT_RUN_DIR": str(self.run_dir), "TMPDIR": str(self.temp)}
        given |= {**_QUIET, **(env or {})}
        warden = [sys.executable, "-I", "-S", WARDEN, folder / "warden.jsonl", grace_s, *command]
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            popen = {"stdout": out, "stderr": err, "stdin": subprocess.DEVNULL, **popen}
            self._warden = subprocess.Popen(
                [str(word) for word in warden], cwd=folder, env=given, **popen
            )
        self.pid: int = self.until(lambda: self._told("pid"), "the launcher to start")

    def _told(self, what: str) -> Any:
        found = [line[what] for line in lines(self.folder / "warden.jsonl") if what in line]
        return found[0] if found else None

    @property
    def agent(self) -> int:
        """Pid of the agent, once it runs: the keeper's child."""

        def found() -> Proc | None:
            return next((p for p in descendants(self.pid) if p.ppid == self.pid), None)

        process: Proc = self.until(found, "the agent")
        return process.pid

    @property
    def err(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")

    @property
    def notes(self) -> list[dict[str, Any]]:
        return lines(self.folder / "notes.jsonl")

    def recorded(self, kind: str) -> list[dict[str, Any]]:
        """Events of a kind that are in the run directory by now."""
        files = self.run_dir.glob("nodes/*/events.jsonl")
        return [line for file in files for line in lines(file) if line["kind"] == kind]

    def until(self, condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
        """Wait until something is the case, and return it. The job must not end meanwhile."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert self._warden.poll() is None, f"ended before {what}:\n{self.err}"
            assert time.monotonic() < end, f"waited in vain for {what}:\n{self.err}"
            time.sleep(0.005)
        return found

    def noted(self, kind: str, count: int = 1, **more: Any) -> list[dict[str, Any]]:
        """Wait for so many notes of a kind (and of a rank or attempt), and return them."""

        def found() -> list[dict[str, Any]] | None:
            wanted = {"kind": kind, **more}.items()
            some = [line for line in self.notes if wanted <= line.items()]
            return some if len(some) >= count else None

        result: list[dict[str, Any]] = self.until(found, f"{count} x {kind} {more}")
        return result

    def signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def end(self, seconds: float = LIMIT_S, *, clean: bool = True, explained: bool = True) -> Ended:
        """Wait for the launcher. `clean`: nothing may be left. `explained`: the run directory
        can be read, and each decision in it comes out the same again."""
        end = time.monotonic() + seconds
        while (code := self._told("code")) is None:
            if time.monotonic() > end or self._warden.poll() is not None:
                said = f"no end within {seconds} s:\n{self.err}\n{tree(self.pid)}"
                self.abort()
                raise AssertionError(said)
            time.sleep(0.01)
        ended = Ended(
            code,
            (self.folder / "stdout").read_text(errors="replace"),
            self.err,
            self.notes,
            self._told("seconds"),
            self._told("left"),
            [n for n in os.listdir(self.temp) if not n.startswith(_CACHES)],
            self._told("settled"),
        )
        if clean:
            assert not ended.left, f"left: {ended.left}\n{self.err}"
            assert not ended.temp, f"left in TMPDIR: {ended.temp}\n{self.err}"
        if explained and (self.run_dir / "run.json").exists():
            ended.folder = load(self.run_dir)
            answer = explain.answer(Namespace(run_dir=self.run_dir), Screen(80, False))
            assert answer.code == 0, answer.text
        return ended

    def abort(self) -> None:
        """Kill whatever is left, for the end of a test however it went."""
        for proc in descendants(self._warden.pid):
            with contextlib.suppress(OSError):
                os.kill(proc.pid, signal.SIGKILL)
        try:
            self._warden.wait(10)  # it kills and reaps what that has missed
        except subprocess.TimeoutExpired:
            self._warden.kill()
            self._warden.wait()


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    proc = stat(pid)
    return proc is not None and proc.state != "Z"


def tree(pid: int) -> str:
    """The processes below one, for messages."""
    return "\n".join(f"{p.pid} < {p.ppid} {p.comm} {p.state}" for p in descendants(pid))
