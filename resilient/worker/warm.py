"""From standby to worker: what happens around the wait."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from . import facts, modules, standby
from .guard import Guard
from .observe import TORCH
from .preload import Group, Preload
from .restart import Start, start_over

if TYPE_CHECKING:
    from .bootstrap import Worker

LATE_MISMATCH_EXIT = 117  # as in model/protocol.py


def begin(worker: Worker) -> Callable[[], None]:
    """Hold output back from here on; the rest comes after the user's sitecustomize."""
    waiting = standby.Waiting()
    return functools.partial(_run, worker, waiting, facts.at_exec())


def _run(worker: Worker, waiting: standby.Waiting, at_exec: dict[str, str]) -> None:
    try:
        present = set(sys.modules)
        # What the interpreter and `site` have set themselves, they would set again.
        startup = facts.difference(at_exec, os.environ)
        preload, given = standby.prepare(worker.channel)
        go, targets, page_fd = standby.wait(worker.channel)
        if given is not None:  # a wrapper in PYTHON_EXEC that exports something would do so again
            go["env"] = facts.changed(go["env"], facts.difference(given, at_exec))
        waiting.end(targets)
        if page_fd >= 0:
            worker.close_page()
            worker.page_fd = page_fd
            worker.page.attach(page_fd)
        facts.become(go["env"])
        facts.apply(startup)
        if os.getcwd() != go["cwd"]:
            os.chdir(go["cwd"])
    except BaseException as error:
        # Not the user's script yet: never let the interpreter go on to it.
        worker.bug(error)
        os._exit(1)
    starting = Start(go["env"])
    try:
        reason = standby.check(go, at_exec)
        folder = modules.script_folder()
        if reason is None and folder is not None:
            names = preload.names | worker.brought | modules.new_since(present)
            found = modules.shadowed(folder, names)
            reason = f"{folder} shadows {', '.join(sorted(found))}" if found else None
        if reason is None:
            _guard(worker, preload, starting, folder)
    except Exception as error:
        worker.bug(error)
        reason = "our own error"
    if reason is not None:
        _start_over(worker, starting, reason)


def _guard(worker: Worker, preload: Preload, starting: Start, folder: str | None) -> None:
    def mismatch(group: Group, reason: str) -> NoReturn:
        if not group.late or guard.hides(TORCH):
            _start_over(worker, starting, reason)
        _give_up(worker, reason)

    def forking() -> None:
        # The child could not start over, and torch's threads would be missing in it.
        if guard.hides(TORCH) and not guard.lenient:
            _start_over(worker, starting, "forked before importing torch")

    def be_lenient() -> None:
        guard.lenient = True

    def loaded() -> None:
        worker.close_page()  # it was kept for starting over
        worker.count_steps()

    guard = Guard(preload, mismatch, worker.safely(loaded))
    worker.on_fork.append(forking)
    worker.on_child.append(be_lenient)
    worker.on_end.append(be_lenient)
    guard.install(folder)


def _start_over(worker: Worker, starting: Start, reason: str) -> NoReturn:
    worker.channel.send("cold", why=reason)
    try:
        start_over(starting, worker.hook_folder, worker.channel.fd, worker.page_fd)
    except Exception as error:
        worker.bug(error)
    _give_up(worker, reason)


def _give_up(worker: Worker, reason: str) -> NoReturn:
    """Let the agent restart the attempt cold: this process can be nobody's cold start any more."""
    worker.channel.send("late_mismatch", why=reason)
    os._exit(LATE_MISMATCH_EXIT)
