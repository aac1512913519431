"""What an import changes outside its own modules, so that it can be taken back and done again."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from typing import Any

from . import facts


def _lists() -> list[list[Any]]:
    filters: Any = warnings.filters
    return [filters, sys.meta_path, sys.path, sys.path_hooks]


class Ambient:
    """Environment and process-wide lists of the standard library, as they were at some moment."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self.lists = [list(entries) for entries in _lists()]
        self.tempdir = tempfile.tempdir

    @property
    def filters(self) -> list[Any]:
        """Filters of warnings."""
        return self.lists[0]

    def restore(self) -> None:
        """Bring all of it back to this moment."""
        facts.become(self.environment)
        for current, entries in zip(_lists(), self.lists, strict=True):
            if current != entries:
                current[:] = entries
        tempfile.tempdir = self.tempdir
        _filters_changed()


class Effects:
    """What happened between two moments."""

    def __init__(self, before: Ambient, after: Ambient) -> None:
        self._environment = facts.difference(before.environment, after.environment)
        self._front: list[list[Any]] = []
        self._back: list[list[Any]] = []
        for old, new in zip(before.lists, after.lists, strict=True):
            start = next((i for i, entry in enumerate(new) if entry in old), len(new))
            self._front.append(new[:start])
            self._back.append([entry for entry in new[start:] if entry not in old])
        self._tempdir = after.tempdir

    def repeat(self) -> None:
        """Let it happen again."""
        facts.apply(self._environment)
        for current, front, back in zip(_lists(), self._front, self._back, strict=True):
            current[:0] = [entry for entry in front if entry not in current]
            current += [entry for entry in back if entry not in current]
        if tempfile.tempdir is None:
            tempfile.tempdir = self._tempdir
        _filters_changed()


def _filters_changed() -> None:
    """Make the interpreter look at the filters of warnings again."""
    getattr(warnings, "_filters_mutated", lambda: None)()
