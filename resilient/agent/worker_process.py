"""One worker or standby as the agent knows it: process, pidfd, channel, page, what it said."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, Popen

import msgspec

from resilient.agent.channel import Channel, Message, high_fd
from resilient.agent.page import Page
from resilient.model.protocol import HOOK_VARIABLE, Late, Observed, Plan

HOOK_FOLDER = str(Path(__file__).parents[1] / "worker" / "hook")


class WorkerProcess:
    """A started process of one local rank. `hooked` says whether our bootstrap may run in it."""

    def __init__(self, local_rank: int, popen: Popen[bytes], channel: Channel | None, page: Page):
        self.local_rank = local_rank
        self.rank = local_rank
        self.popen = popen
        self.argv: tuple[str, ...] = ()
        self.channel, self.page = channel, page
        self.pidfd = os.pidfd_open(popen.pid)
        self.hook_seen = False
        self.observed: Observed | None = None
        self.late: Late | None = None
        self.ready = False  # a standby that waits
        self.late_planned = False  # a standby that imports torch._dynamo too
        self.warm = False  # came from a standby and did not start over
        self.started_over = ""  # why a standby could not go on and ran the script cold
        self.cold_why = ""
        self.main_ended = False
        self.late_mismatch = ""

    @property
    def pid(self) -> int:
        """Process id; the process is its own session's leader."""
        return self.popen.pid

    def hear(self) -> list[Message]:
        """Take in what the worker said; returns the messages for the event log."""
        if self.channel is None:
            return []
        heard = [message for message in self.channel.read() if self._take(message)]
        if self.channel.refused:
            heard.append({"t": "refused", "why": self.channel.refused})
        return heard

    def _take(self, message: Message) -> bool:
        kind = message["t"]
        try:
            if kind == "hook":
                self.hook_seen = True
            elif kind == "observed":
                self.observed = msgspec.convert(message, Observed)
            elif kind == "late":
                self.late = msgspec.convert(message, Late)
            elif kind == "ready":
                self.ready = True
            elif kind == "cold":
                self.warm = False
                self.cold_why = self.started_over = str(message.get("why", ""))[:500]
            elif kind == "late_mismatch":
                self.late_mismatch = str(message.get("why", "differs"))[:500]
            elif kind == "main_ended":
                self.main_ended = True
        except msgspec.ValidationError as error:
            message["t"], message["why"] = "refused", str(error)
        return True

    def close(self) -> None:
        """Release what the agent holds of it. The process itself must be gone or on its own."""
        if self.channel is not None:
            self.channel.close()
        self.page.close()
        os.close(self.pidfd)


def start(
    local_rank: int,
    argv: Sequence[str],
    env: dict[str, str],
    *,
    mode: str | None,
    stdout: int | None,
    stderr: int | None,
) -> WorkerProcess:
    """Start one process exactly as torchrun would, with our hook in its environment.

    `mode` is "observe" or "standby"; None starts it without the hook. A standby's own output
    goes nowhere: its descriptors 1 and 2 arrive with the go message. Must be called on the main
    thread: the parent-death signal follows the thread that forked. Raises OSError as Popen does.
    """
    page = Page()
    if mode is None:
        popen = Popen(argv, env=env, stdout=stdout, stderr=stderr, start_new_session=True)
        process = WorkerProcess(local_rank, popen, None, page)
        process.argv = tuple(argv)
        return process
    channel, theirs = Channel.pair()
    fds = (high_fd(theirs), high_fd(os.dup(page.fd)))
    quiet = mode == "standby"
    try:
        popen = Popen(
            argv,
            env=_hooked(env, mode, fds),
            stdout=DEVNULL if quiet else stdout,
            stderr=DEVNULL if quiet else stderr,
            start_new_session=True,
            pass_fds=fds,
        )
    except BaseException:
        channel.close()
        page.close()
        raise
    finally:
        for fd in fds:
            os.close(fd)
    process = WorkerProcess(local_rank, popen, channel, page)
    process.argv = tuple(argv)
    return process


def _hooked(env: dict[str, str], mode: str, fds: tuple[int, int]) -> dict[str, str]:
    path = env.get("PYTHONPATH")
    hook = {"mode": mode, "fd": fds[0], "page": fds[1], "ppid": os.getpid(), "pythonpath": path}
    # An empty entry would be the current folder.
    joined = HOOK_FOLDER + os.pathsep + path if path else HOOK_FOLDER
    return {**env, "PYTHONPATH": joined, HOOK_VARIABLE: json.dumps(hook)}


def start_standby(
    local_rank: int, argv: Sequence[str], env: dict[str, str], plan: Plan
) -> WorkerProcess:
    """Start a standby for a local rank and tell it what to preload."""
    process = start(local_rank, argv, env, mode="standby", stdout=None, stderr=None)
    assert process.channel is not None
    process.channel.send({"t": "plan", **msgspec.to_builtins(plan), "given": env})
    return process


def go(process: WorkerProcess, env: dict[str, str], stdout: int | None, stderr: int | None) -> bool:
    """Tell a standby to be the worker. False when it is gone; a busy one reads it later.

    None for a stream means the agent's own, which may be closed: then nothing is sent for it.
    """
    assert process.channel is not None
    sources = {1: 1 if stdout is None else stdout, 2: 2 if stderr is None else stderr}
    fds: dict[int, int] = {}
    for target, source in sources.items():
        with suppress(OSError):
            fds[target] = os.dup(source)
    try:
        message = {"t": "go", "env": env, "cwd": str(Path.cwd()), "fds": list(fds)}
        process.warm = process.channel.send(message, list(fds.values()))
    finally:
        for fd in fds.values():
            os.close(fd)
    return process.warm and process.popen.poll() is None
