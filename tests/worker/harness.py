"""A small agent: starts one worker the way the real one does, and listens to it."""

import contextlib
import dataclasses
import json
import os
import site
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HOOK = Path(__file__).parents[2] / "resilient" / "worker" / "hook"
TIMEOUT_S = 120.0
START, LOAD, STEP, TEARDOWN = range(4)  # phases in the page


@dataclasses.dataclass
class Result:
    """All that is left of a worker."""

    stdout: str
    stderr: str
    code: int
    messages: list[dict[str, Any]]
    page: list[int]

    @property
    def seen(self) -> tuple[str, str, int]:
        """What a user sees."""
        return self.stdout, self.stderr, self.code

    @property
    def kinds(self) -> list[str]:
        return [message["t"] for message in self.messages]

    def message(self, kind: str) -> dict[str, Any]:
        return next(message for message in self.messages if message["t"] == kind)

    def plan(self, late: bool = True) -> dict[str, Any]:
        """What the agent makes of an observation."""
        observed = self.message("observed")
        assert not observed["native"], observed
        assert not observed["affinity_changed"] and not observed["dlopen_flags_changed"]
        plan = {key: observed[key] for key in ("roots", "env", "gone", "torch_path")}
        plan["late"] = None
        if late and "late" in self.kinds:
            plan["late"] = {key: self.message("late")[key] for key in ("env", "gone")}
        return plan


def environment(**changes: str | None) -> dict[str, str]:
    """Environment of a worker of a one-rank job, without what pytest left in ours."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV", "RESILIENT"))}
    env |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "OMP_NUM_THREADS": "1"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29501", "RESILIENT_ATTEMPT": "0"}
    for name, value in changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    return env


SMALL_TORCH = """
import os, queue
from . import extra
try: import opt_einsum
except ImportError: pass
__version__ = "small"
class cuda:
    is_initialized = staticmethod(lambda: False)
"""
TORCH = str(Path(site.getsitepackages()[0]) / "torch")


def plan_for(torch_path: str = TORCH, **changes: Any) -> dict[str, Any]:
    """Plan of a standby for a script that does nothing before it imports torch."""
    plan = {"roots": [], "env": {}, "gone": [], "torch_path": torch_path, "late": None}
    return {**plan, **changes}


def small_torch(folder: Path, text: str = SMALL_TORCH) -> tuple[dict[str, Any], dict[str, str]]:
    """Plan and environment for a torch that is quick to import.

    For tests of what happens around torch, where the real one would only take time.
    """
    package = folder / "small" / "torch"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(text)
    (package / "extra.py").touch()
    return plan_for(str(package)), environment(PYTHONPATH=str(package.parent))


class Worker:
    """One process with the hook. Use as a context manager; `finish` gives its Result."""

    def __init__(
        self,
        mode: str,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | Path,
        stdin: bytes = b"",
        python: Sequence[str] = (sys.executable,),
        flags: Sequence[str] = ("-u",),
        ppid: int | None = None,
        preexec: Callable[[], None] | None = None,
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self._heard = threading.Condition()
        self._eof = False
        self.channel, theirs = socket.socketpair()
        self.page_fd = os.memfd_create("page")
        os.ftruncate(self.page_fd, 4096)
        started = dict(env)
        if mode != "plain":
            given = env.get("PYTHONPATH")
            started["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HOOK), given)))
            hook = {"mode": mode, "fd": theirs.fileno(), "page": self.page_fd}
            hook |= {"ppid": os.getpid() if ppid is None else ppid, "pythonpath": given}
            started["RESILIENT_HOOK"] = json.dumps(hook)
        self.process = subprocess.Popen(
            [*python, *flags, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=started,
            cwd=cwd,
            start_new_session=True,
            pass_fds=() if mode == "plain" else (theirs.fileno(), self.page_fd),
            preexec_fn=preexec,  # noqa: PLW1509  # runs one system call
        )
        theirs.close()
        self._stdin = stdin
        self._output: list[tuple[bytes, bytes]] = []
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._drain, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        self.channel.close()
        os.close(self.page_fd)

    def _drain(self) -> None:
        self._output.append(self.process.communicate(self._stdin))

    def _listen(self) -> None:
        with contextlib.suppress(ConnectionError, EOFError):
            while True:
                (length,) = struct.unpack(">I", self._read(4))
                message = json.loads(self._read(length))
                with self._heard:
                    self.messages.append(message)
                    self._heard.notify_all()
        with self._heard:
            self._eof = True
            self._heard.notify_all()

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.channel.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def wait_for(self, kind: str) -> dict[str, Any]:
        """Wait for a message of a kind; AssertionError if none comes before the end."""
        with self._heard:
            found = self._heard.wait_for(
                lambda: self._eof or any(m["t"] == kind for m in self.messages), TIMEOUT_S
            )
            assert found, f"no {kind} in {TIMEOUT_S} s, only {self.messages}"
            hits = [m for m in self.messages if m["t"] == kind]
            assert hits, f"no {kind}, only {self.messages}"
            return hits[0]

    def send(self, kind: str, handed: Sequence[int] = (), **fields: object) -> None:
        body = json.dumps({"t": kind, **fields}).encode()
        socket.send_fds(self.channel, [struct.pack(">I", len(body)) + body], list(handed))

    def words(self) -> list[int]:
        return list(struct.unpack("<512Q", os.pread(self.page_fd, 4096, 0)))

    def finish(self) -> Result:
        """Wait for the process's end."""
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive(), "the worker does not end"
        stdout, stderr = self._output[0]
        code = self.process.wait()
        return Result(
            stdout.decode(errors="replace"),
            stderr.decode(errors="replace"),
            code,
            self.messages,
            self.words(),
        )


def run(mode: str, args: Sequence[str], **options: Any) -> Result:
    """Run a worker that is told nothing: "plain" (no hook at all), "observe" or "cold"."""
    with Worker(mode, args, **options) as worker:
        return worker.finish()


def warm(
    args: Sequence[str],
    plan: Mapping[str, Any],
    *,
    env: Mapping[str, str],
    cwd: str | Path,
    go_env: Mapping[str, str] | None = None,
    **options: Any,
) -> Result:
    """Run a standby; its output goes where `go` says."""
    with Worker("standby", args, env=env, cwd=cwd, **options) as worker:
        worker.send("plan", **plan)
        worker.wait_for("ready")
        worker.send("go", env=dict(env if go_env is None else go_env), cwd=str(cwd), fds=[])
        return worker.finish()


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for a condition; AssertionError after a long time."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)
