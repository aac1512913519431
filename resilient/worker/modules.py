"""Whose module is it: the standard library's, an installed package's, or the user's own?"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from types import FunctionType, ModuleType

_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
_OTHERS = (*sys.builtin_module_names, "__main__", "__mp_main__")  # the latter is multiprocessing's
_INSTALLED = ("/site-packages/", "/dist-packages/")


def top(name: str) -> str:
    """Top-level package of a module's name."""
    return name.partition(".")[0]


def new_since(names: Collection[str]) -> set[str]:
    """Top-level packages of which something was imported since sys.modules had these names."""
    return {top(name) for name in list(sys.modules) if name not in names}


def is_standard(name: str, module: ModuleType | None) -> bool:
    """Whether a top-level module is the standard library's, built in or frozen.

    Decided by where it came from: setuptools brings a `distutils` that is not.
    """
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    if name in _OTHERS or origin in ("built-in", "frozen"):
        return True
    path = getattr(module, "__file__", None) or origin
    if not isinstance(path, str) or not os.path.isabs(path):
        return name in sys.stdlib_module_names
    if any(part in path for part in _INSTALLED):
        return False
    return path.startswith(_LIBRARY) or "/lib-dynload/" in path


def installed_roots(before: Collection[str]) -> list[str]:
    """Top-level modules of installed packages imported since `before`, in order."""
    return [
        name
        for name, module in list(sys.modules.items())
        if name not in before
        and "." not in name
        and any(part in (getattr(module, "__file__", None) or "") for part in _INSTALLED)
        and not getattr(getattr(module, "__spec__", None), "_initializing", False)
    ]


def resolve(name: str, skip: object = None) -> str | None:
    """Origin that an import of a top-level name would come from now; None if there is none."""
    for finder in list(sys.meta_path):
        if finder is not skip and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, None)
            if spec is not None:
                where = spec.origin or list(spec.submodule_search_locations or ())
                return str(where)
    return None


def used(module: ModuleType) -> Iterator[str]:
    """Names of the modules that a module has in its globals, or classes and functions of."""
    for value in list(vars(module).values()):
        kind = type(value)  # not isinstance, which may ask the value itself
        if issubclass(kind, ModuleType):
            yield value.__name__
        elif issubclass(kind, (type, FunctionType)) and isinstance(value.__module__, str):
            yield value.__module__


def script_folder() -> str | None:
    """Folder that the interpreter is about to put in front of sys.path; None if none."""
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    if getattr(sys.flags, "safe_path", False):
        return None
    if script in ("", "-", "-c", "-m"):
        return os.getcwd()
    path = os.path.realpath(script)
    return path if os.path.isdir(path) else os.path.dirname(path)


def shadowed(folder: str, names: Iterable[str]) -> set[str]:
    """Those of `names` that a module or package in `folder` would be imported for.

    All of them where the folder is something that cannot be listed, such as a zip file.
    """
    try:
        entries = set(os.listdir(folder or "."))
    except OSError:
        return set(names) if os.path.isfile(folder) else set()
    suffixes = importlib.machinery.all_suffixes()

    def importable(name: str) -> bool:
        if name in sys.builtin_module_names:
            return False
        inits = (os.path.join(folder, name, "__init__" + suffix) for suffix in suffixes)
        return any(name + suffix in entries for suffix in suffixes) or (
            name in entries and any(map(os.path.isfile, inits))
        )

    frozen = importlib.machinery.FrozenImporter
    return {name for name in names if importable(name) and frozen.find_spec(name) is None}


def added(known: Collection[str | None]) -> Iterator[tuple[str, bool]]:
    """Entries of sys.path that are not known, and whether one that is known comes after."""
    for index, entry in enumerate(sys.path):
        if entry not in known:
            yield entry, any(later in known for later in sys.path[index:])


def forget(names: Collection[str]) -> None:
    """Take whole trees out of sys.modules."""
    for name in list(sys.modules):
        if top(name) in names:
            del sys.modules[name]
