"""One worker's life, as seen by what runs inside it before the script does.

    observe   a cold worker: report what it does before importing torch
    standby   import torch ahead, wait for `go`, then let the script find it
    cold      a standby that started over: as `observe`, with nothing to report

In each: die with the agent, count steps into the page, tell when main ended well.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import libc, modules, steps
from .channel import Channel, lift, own
from .ending import Ending
from .observe import DYNAMO, TORCH, Observer, Watch
from .page import TEARDOWN, Page


class Worker:
    """What all modes share; for a forked child its parts become harmless ones."""

    def __init__(self, config: Mapping[str, Any], channel_fd: int, page_fd: int) -> None:
        self.mode = str(config["mode"])
        self.channel = Channel(channel_fd)
        self.page = Page()
        self.page_fd = lift(page_fd) if page_fd >= 0 else -1
        self.hook_folder = ""
        self.present: set[str] = set()  # names in sys.modules when the hook began
        self.brought: set[str] = set()  # top-level modules that we have imported since
        self.on_fork: list[Callable[[], None]] = []  # in the parent, before
        self.on_child: list[Callable[[], None]] = []
        self.on_end: list[Callable[[], None]] = []

    def install(self) -> None:
        """Say hello, share the page, and get ready for forks and for the end."""
        self.channel.send("hook", pid=os.getpid(), mode=self.mode)
        ended = functools.partial(self.channel.send, "main_ended")
        Ending(self.safely(self._finishing), self.safely(ended)).install()
        os.register_at_fork(before=self._forking, after_in_child=self._child)
        if self.page_fd >= 0:
            self.page.attach(self.page_fd)

    def close_page(self) -> None:
        """Close the page's descriptor: the mapping needs none."""
        fd, self.page_fd = self.page_fd, -1
        if fd >= 0:
            os.close(fd)

    def count_steps(self) -> None:
        """Torch is there."""
        steps.register(self.page)

    def bug(self, error: BaseException) -> None:
        """Report an error of our own."""
        import traceback

        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.channel.send("bug", text=text[-4000:])

    def safely(self, call: Callable[..., None]) -> Callable[..., None]:
        """A function whose errors are reported to the agent, not to the script."""

        def safe(*args: Any) -> None:
            try:
                call(*args)
            except Exception as error:
                self.bug(error)

        return safe

    def _forking(self) -> None:
        for call in self.on_fork:
            call()

    def _child(self) -> None:
        """Nothing of a forked child may reach the agent."""
        self.channel.close()
        self.close_page()
        self.page.detach()
        for call in self.on_child:
            call()

    def _finishing(self, well: bool) -> None:
        for call in self.on_end:
            call()
        steps.first_collective(self.page)
        if well:
            self.page.reach(TEARDOWN)


def enter(config: Mapping[str, Any], present: set[str], folder: str) -> Callable[[], None]:
    """Begin before the user's sitecustomize; return what is to be called after it.

    `present`: names in sys.modules when the hook began. `folder`: the hook's own.
    """
    standby = config["mode"] == "standby"
    channel_fd = own(int(config["fd"]), "socket:")
    page_fd = own(int(config["page"]), "/memfd:")
    supported = sys.version_info >= (3, 10)  # PYTHON_EXEC may be older than we are
    parent = os.getppid() == config["ppid"]  # no wrapper in between, and the agent is alive
    if parent:
        libc.die_with_parent(signal.SIGKILL)
        if os.getppid() != config["ppid"]:
            os.kill(os.getpid(), signal.SIGKILL)
    if not parent or not supported:
        if standby:
            os._exit(0)
        for fd in (channel_fd, page_fd):
            if fd >= 0:
                os.close(fd)
        return functools.partial(_give_way, modules.new_since(present))
    worker = Worker(config, channel_fd, page_fd)
    worker.hook_folder, worker.present = folder, present
    try:
        if standby:
            from . import warm

            go_on = warm.begin(worker)
        else:
            go_on = functools.partial(_cold, worker)
        worker.install()
    except Exception as error:
        worker.bug(error)
        raise
    worker.brought = modules.new_since(present)
    return go_on


def _cold(worker: Worker) -> None:
    """Let the script run as it is, and watch it import torch."""
    try:
        worker.close_page()
        reports: dict[str, Any] = {}
        if worker.mode == "observe":
            observer = Observer(worker.channel, worker.present)
            reports = {TORCH: worker.safely(observer.torch), DYNAMO: worker.safely(observer.dynamo)}
            worker.on_fork.append(observer.fork)
        Watch(reports, worker.safely(worker.count_steps)).install()
    except Exception as error:
        worker.bug(error)
    _give_way(worker.brought)


def _give_way(brought: set[str]) -> None:
    """Forget what we have imported where the script has a module of that name, as it would have.

    Its own `queue.py` comes before the standard library's.
    """
    folder = modules.script_folder()
    if folder is not None:
        modules.forget(modules.shadowed(folder, brought))
