"""Gives the script what was preloaded, if it gets what its own import would have given it.

A finder in front of all others. Where the circumstances differ from those of the preload, the
worker starts over cold (see restart.py), or, once torch is in use, gives up its life.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from . import facts, modules
from .capture import replay
from .observe import TORCH
from .preload import Group, Preload

Mismatch = Callable[[Group, str], NoReturn]


class Guard:
    """Owns the hidden modules. `loaded` is called when the script has torch.

    `mismatch` is called with the group and the reason, and must not return.
    """

    def __init__(self, preload: Preload, mismatch: Mismatch, loaded: Callable[[], None]) -> None:
        self._preload = preload
        self._mismatch = mismatch
        self._loaded = loaded
        self._owner = {name: group for group in preload.groups for name in group.modules}
        self._lock = threading.RLock()
        self._path = set(sys.path)
        self._streams = (sys.stdout, sys.stderr)
        self.lenient = False  # the script is over, or this is a forked child: never start over

    def install(self, script_folder: str | None) -> None:
        """Become the first finder. The script's folder will come on sys.path and is known."""
        if script_folder is not None:
            self._path.add(script_folder)
        sys.meta_path.insert(0, self)

    def hides(self, name: str) -> bool:
        """Whether the script has not been given this module yet."""
        return name in self._owner

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a hidden module: a spec that looks like its own. Nothing is given back yet."""
        group = self._owner.get(name)
        if group is None:
            return None
        module = group.modules[name]
        own = getattr(module, "__spec__", None)
        loader: Any = _Return(self, name, getattr(own, "loader", None))
        spec = ModuleSpec(name, loader)
        vars(spec).update(vars(own) if own is not None else {})
        spec.loader = loader
        return spec

    def give_back(self, name: str) -> None:
        """Put a hidden module and what its import would have brought into sys.modules."""
        with self._lock:
            if name not in self._owner:
                return
            names = self._belonging(name)
            groups = [g for g in self._preload.groups if any(self._owner[n] is g for n in names)]
            for group in groups if not self.lenient else ():
                reason = self._difference(group)
                if reason is not None:
                    self._mismatch(group, reason)
            for group in groups:
                if group.key in names:
                    group.effects.repeat()
                    replay(2, group.text)
                self._show(group, [n for n in group.modules if n in names])

    def _belonging(self, name: str) -> set[str]:
        """Hidden modules that the script's import of `name` would have brought."""
        group = self._owner[name]
        if name == group.key or (group.late and TORCH not in self._owner):
            order = self._preload.groups
            sooner = order[: order.index(group) + 1]
            return {found for found, owner in self._owner.items() if owner in sooner}
        # A package beside torch: itself, and what it uses.
        names, todo = {name}, [name]
        while todo:
            found = todo.pop()
            if found == self._owner[found].key:
                new = self._belonging(found)
            else:
                tree = modules.top(found)
                new = {other for other in self._owner if modules.top(other) == tree}
                new.update(modules.used(self._owner[found].modules[found]))
            new = new & self._owner.keys() - names
            names |= new
            todo += new
        return names

    def _show(self, group: Group, names: list[str]) -> None:
        for name in names:
            sys.modules.setdefault(name, group.modules[name])
            del self._owner[name]
            if name in group.attributes:
                parent, attribute = group.attributes[name]
                setattr(parent, attribute, group.modules[name])
        if not self._owner and self in sys.meta_path:
            sys.meta_path.remove(self)

    def returned(self, name: str) -> None:
        """A module is in place again, its own spec too."""
        if name == TORCH:
            self._loaded()

    def _difference(self, group: Group) -> str | None:
        try:
            return next(self._differences(group), None)
        except Exception as error:
            return f"cannot compare: {error!r}"

    def _differences(self, group: Group) -> Iterator[str]:
        """Why the script's own import would have given something else than what is hidden."""
        then = facts.stable(group.before.environment)
        changes = facts.difference(then, facts.stable(os.environ))
        if changes:
            yield "environment differs: " + ", ".join(sorted(changes))
        if facts.scheduling() != self._preload.scheduling:
            yield "CPU affinity or dlopen flags differ"
        libraries = facts.native() - self._preload.native
        if libraries:
            yield "native libraries were loaded before: " + ", ".join(sorted(libraries))
        own = [n for n in group.modules if n in sys.modules and n in self._owner]
        if own:
            yield "sys.modules has another " + ", ".join(own)
        for name, origin in group.origins.items():
            if name in self._owner and modules.resolve(name, skip=self) != origin:
                yield f"{name} would come from elsewhere"
        if not group.late:
            for entry, in_front in modules.added(self._path):
                names = self._preload.names if in_front else self._preload.missing
                if modules.shadowed(entry, names):
                    yield f"sys.path has {entry}, which has modules that torch looks for"
        silenced = warnings.filters != group.before.filters
        if group.text and (silenced or (sys.stdout, sys.stderr) != self._streams):
            yield "what the import prints would go elsewhere"


class _Return:
    """Loader that gives back a module which exists; in all else the module's own loader."""

    def __init__(self, guard: Guard, name: str, own: Any) -> None:
        self._guard = guard
        self._name = name
        self._own = own
        self._kept: dict[str, Any] = {}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self._guard.give_back(self._name)
        module = sys.modules[self._name]
        self._kept = {k: vars(module).get(k) for k in ("__spec__", "__loader__")}
        return module

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._kept)
        self._guard.returned(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)
