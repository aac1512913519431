"""The life of a standby up to the moment at which it becomes a worker.

plan → imports → ready → (waits) → go → the interpreter runs the script
                                   ↳ end of the socket → exit 0
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from . import capture, facts, libc
from .channel import Channel, Closed, lift
from .preload import Preload, Unfit

_NAME = b"rr-standby"


class Waiting:
    """What a standby takes on while it waits, and gives up when it is told to go."""

    def __init__(self) -> None:
        self._name = libc.get_name()
        libc.set_name(_NAME)
        self._score = _swap_score(b"1000")
        self._output = {fd: capture.Capture(fd) for fd in (1, 2)}

    def end(self, targets: Mapping[int, int]) -> None:
        """Be an ordinary process again, with `targets`: standard descriptor → received one."""
        texts = {fd: output.stop() for fd, output in self._output.items()}
        for fd, received in targets.items():
            os.dup2(received, fd)
            os.close(received)
        for fd, text in texts.items():  # of the user's sitecustomize
            capture.replay(fd, text)
        _swap_score(self._score)
        for path in _threads():  # also those that imports have started
            with contextlib.suppress(OSError), open(path, "r+b", 0) as file:
                if file.read().strip() == _NAME:
                    file.write(self._name)


def _threads() -> Iterator[str]:
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            yield f"/proc/self/task/{task}/comm"


def _swap_score(score: bytes) -> bytes:
    """Set how readily the kernel kills this process for memory; return the old value or b""."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+b", 0) as file:
        old = file.read().strip()
        if score:
            file.write(score)
        return old
    return b""


def prepare(channel: Channel) -> tuple[Preload, Mapping[str, str] | None]:
    """Read the plan and carry it out; say so. Ends the process where that makes no sense.

    Returns also the environment that the agent had given, where the plan tells it.
    """
    preload = Preload()
    try:
        began = time.monotonic()
        plan = _expect(channel, "plan")[0]
        preload.run(plan)
        late = any(group.late for group in preload.groups)
        channel.send("ready", late=late, seconds=time.monotonic() - began)
    except Unfit as error:
        channel.send("cold", why=str(error))
        os._exit(0)
    return preload, plan.get("given")


def wait(channel: Channel) -> tuple[dict[str, Any], dict[int, int], int]:
    """Wait for `go`: the message, standard descriptor → received one, and the page's or -1."""
    go, fds = _expect(channel, "go")
    page = lift(fds.pop()) if go.get("page") else -1
    targets = list(go.get("fds", ()))
    if len(targets) != len(fds):
        raise ValueError(f"{len(fds)} descriptors for {targets}")
    return go, dict(zip(targets, map(lift, fds), strict=True)), page


def _expect(channel: Channel, kind: str) -> tuple[dict[str, Any], list[int]]:
    try:
        message, fds = channel.receive()
    except Closed:
        os._exit(0)
    if message.get("t") != kind:
        raise ValueError(f"{message.get('t')!r} where {kind!r} was due")
    return message, fds


def check(go: Mapping[str, Any], exec_environment: Mapping[str, str]) -> str | None:
    """Why this process cannot be that worker, or None: all but what differs by design is equal.

    What Python and its libraries read while they start was read from the old environment.
    """
    old, new = facts.stable(exec_environment), facts.stable(go["env"])
    changes = facts.difference(old, new)
    return "environment differs: " + ", ".join(sorted(changes)) if changes else None
