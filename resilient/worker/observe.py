"""Watches a cold worker import torch, and tells the agent what a standby would have to repeat.

One finder on sys.meta_path. It finds nothing itself: it lets the others find torch, and sets
`create_module` on that one loader object for the moment between finding and executing. So the
report is made just before torch runs, not when somebody merely asks `find_spec("torch")`;
nothing of it stays on the module, and no frame of ours is on the stack while torch runs, where
tracebacks and the `stacklevel` of warnings would show it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from . import facts, modules
from .channel import Channel

TORCH = "torch"
DYNAMO = "torch._dynamo"  # half a cold start: constructing DDP imports it
OPTIMIZER = "torch.optim.optimizer"

Report = Callable[[ModuleSpec], None]


class Watch:
    """Calls something just before some modules are first executed, and once torch is there."""

    def __init__(self, reports: dict[str, Report], loaded: Callable[[], None]) -> None:
        self._reports = dict(reports)
        self._loaded: Callable[[], None] | None = loaded
        self._pid = os.getpid()

    def install(self) -> None:
        """Become the first finder; at once done with what is there already."""
        sys.meta_path.insert(0, self)
        self._look()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Never find anything, but prepare what the next finder finds."""
        if os.getpid() != self._pid:  # a forked child is not the worker
            return None
        self._look()
        if name not in self._reports:
            return None
        for finder in list(sys.meta_path):
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._prepare(name, spec)
                    return spec
        return None

    def _prepare(self, name: str, spec: ModuleSpec) -> None:
        loader = spec.loader
        create = getattr(loader, "create_module", None)
        if create is None or not hasattr(loader, "__dict__") or isinstance(loader, type):
            return

        def create_module(spec: ModuleSpec) -> ModuleType | None:
            del loader.create_module  # type: ignore[union-attr]
            report = self._reports.pop(name, None)
            if report is not None:
                report(spec)
            self._leave()
            return create(spec)  # type: ignore[no-any-return]

        loader.create_module = create_module  # type: ignore[union-attr, method-assign]

    def _look(self) -> None:
        """See whether torch's optimizers are there; part of every `import torch`, mid-way."""
        module = sys.modules.get(OPTIMIZER)
        if self._loaded is None or module is None:
            return
        if not getattr(module.__spec__, "_initializing", False):
            loaded, self._loaded = self._loaded, None
            loaded()
            self._leave()

    def _leave(self) -> None:
        if not self._reports and self._loaded is None and self in sys.meta_path:
            sys.meta_path.remove(self)


class Observer:
    """What a worker did to itself before it imported torch, compared with its start."""

    def __init__(self, channel: Channel, before: set[str]) -> None:
        self._channel = channel
        self._modules = set(before)
        self._start = dict(os.environ)
        self._scheduling = facts.scheduling()
        self._native = facts.native()
        self._path = {*sys.path, modules.script_folder()}
        self._forked = False  # this process forked before it imported torch

    def fork(self) -> None:
        """This process is about to fork."""
        self._forked = True

    def torch(self, spec: ModuleSpec) -> None:
        """Report the state before torch."""
        for entry, in_front in modules.added(self._path):
            hidden = modules.shadowed(entry, sys.stdlib_module_names) if in_front else set()
            if hidden:
                # A standby has much of the standard library loaded, and could not tell later.
                why = f"sys.path has {entry}, which shadows {', '.join(sorted(hidden)[:5])}"
                self._channel.send("unfit", why=why)
                return
        affinity, flags = facts.scheduling()
        self._channel.send(
            "observed",
            **self._environment(),
            affinity_changed=affinity != self._scheduling[0],
            dlopen_flags_changed=flags != self._scheduling[1],
            roots=modules.installed_roots(self._modules),
            native=sorted(facts.native() - self._native),
            torch_path=os.path.dirname(spec.origin or ""),
            forked=self._forked,
        )

    def dynamo(self, _spec: ModuleSpec) -> None:
        """Report the environment before torch._dynamo."""
        self._channel.send("late", **self._environment())

    def _environment(self) -> dict[str, object]:
        changes = facts.difference(self._start, os.environ)
        return {
            "env": {name: value for name, value in changes.items() if value is not None},
            "gone": [name for name, value in changes.items() if value is None],
        }
