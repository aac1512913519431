"""Imports torch ahead of the script, and takes it out of sight again.

A group is what one import brought. Everything third-party in it leaves sys.modules until the
script asks for it; what is the standard library's stays, which is the one lasting difference.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import facts, modules
from .ambient import Ambient, Effects
from .capture import Capture
from .observe import DYNAMO, TORCH


class Unfit(Exception):  # not an error: this rank simply starts cold
    """A standby cannot stand in for the worker that was observed."""


class Group:
    """Modules that one import brought, and the circumstances under which it did."""

    def __init__(self, key: str, before: Ambient, effects: Effects, text: bytes) -> None:
        self.key = key  # importing it gives the whole group back
        self.late = key == DYNAMO
        self.before = before
        self.effects = effects  # of the import, taken back since
        self.text = text  # that the import printed
        self.modules: dict[str, ModuleType] = {}  # what is hidden, in order of import
        self.attributes: dict[str, tuple[ModuleType, str]] = {}  # hidden module → where it hung
        self.origins: dict[str, str | None] = {}  # of its top-level packages

    def hide(self, names: Iterable[str]) -> None:
        """Take modules out of sys.modules, and off parents that came with another group."""
        self.modules = {name: sys.modules.pop(name) for name in names}
        self.origins = {name: modules.resolve(name) for name in self.modules if "." not in name}
        for name, module in self.modules.items():
            parent_name, _, attribute = name.rpartition(".")
            parent = sys.modules.get(parent_name)
            if parent is not None and vars(parent).get(attribute) is module:
                delattr(parent, attribute)
                self.attributes[name] = (parent, attribute)


class Preload:
    """All groups of one standby, and every top-level name that their imports asked for."""

    def __init__(self) -> None:
        self.groups: list[Group] = []  # in order of import
        self.names: set[str] = set()
        self.missing: set[str] = set()  # those of them that do not exist
        self.scheduling = facts.scheduling()
        self.native: set[str] = set()  # once everything is loaded

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Finder that finds nothing, and notes what is asked for, also what does not exist."""
        self.names.add(modules.top(name))
        return None

    def run(self, plan: Mapping[str, Any]) -> None:
        """Import what the plan says. Raises Unfit, and whatever the imports raise."""
        base = Ambient()
        present = set(sys.modules)
        brought: list[list[str]] = []
        steps = [(root, plan) for root in plan["roots"]]
        steps.append((TORCH, plan))
        if plan.get("late") is not None:
            steps.append((DYNAMO, plan["late"]))
        for key, changes in steps:
            if key == TORCH:
                _check_origin(plan["torch_path"])
            self.groups.append(self._load(key, changes))
            brought.append([name for name in sys.modules if name not in present])
            present.update(sys.modules)
            facts.become(base.environment)
        if sys.modules[TORCH].cuda.is_initialized():
            raise Unfit("importing torch initialised CUDA")
        self.native = facts.native()
        self.missing = {name for name in self.names if name not in sys.modules}
        base.restore()
        for group, names in reversed(list(zip(self.groups, brought, strict=True))):
            standard = {modules.top(name): True for name in names}
            for name in standard:
                standard[name] = modules.is_standard(name, sys.modules.get(name))
            group.hide(name for name in names if not standard[modules.top(name)])

    def _load(self, key: str, changes: Mapping[str, Any]) -> Group:
        """Import `key` under the environment that it was observed to be imported under."""
        facts.apply(changes["env"])
        facts.apply(dict.fromkeys(changes["gone"]))
        before = Ambient()
        capture = Capture(1, 2)
        sys.meta_path.insert(0, self)
        try:
            importlib.import_module(key)
        finally:
            sys.meta_path.remove(self)
            text = capture.stop()
        return Group(key, before, Effects(before, Ambient()), text)


def _check_origin(wanted: str) -> None:
    found = os.path.dirname(modules.resolve(TORCH) or "")
    if found != wanted:
        raise Unfit(f"torch would come from {found!r}; in the observed worker from {wanted!r}")
