"""Differences between the two launchers that are meant to be there, each with its reason."""

import sys
from typing import Any

from differential.case import Case

# The bootstrap's own module, and the alias of __main__ that importing multiprocessing makes.
OTHERS = ("_resilient_worker", "__mp_main__")
UNUSED = ("environ.PYTHONPATH", "files", "inherited")
FIRST_HIDDEN_FD = 100  # descriptors of the bootstrap are at least this high


def reason(case: Case, where: str, theirs: Any, ours: Any) -> str:
    """Why a difference is known and harmless; empty where it is neither."""
    extra = only_in(ours, theirs)
    if "--run-path" in case.program and where.endswith(("files", "inherited", "modules")):
        return "the launcher's own files and modules, which a multiprocessing child gets as well"
    if "isolated" in case.env.get("PYTHON_EXEC", "") and where.endswith(UNUSED):
        return "an interpreter that ignores PYTHONPATH leaves the bootstrap's door unused"
    match where.rpartition(".")[2]:
        case "modules" if not only_in(theirs, ours) and all(map(standard, extra)):
            return "standard-library modules that the bootstrap has loaded"
        case "finders" if not only_in(theirs, ours) and len(extra) == 1:
            return "one finder until torch has been imported"
        case "files" if not theirs and all(map(hidden, ours)):
            return "close-on-exec descriptors of the bootstrap, out of the way"
        case "kind" if case.terminal == "file" and (theirs, ours) == ("-", "p"):
            return "a pipe where torchrun would have given the file"
        case "kind" if "ranks-filter" in " ".join(case.flags) and (theirs, ours) == ("c", "p"):
            return "a pipe where torchrun would have given /dev/null"
        case "Threads" | "SigCgt" if case.env.get("OMP_NUM_THREADS", "1") != "1":
            return "threads of numpy's library, from importing it early"
    return ""


def only_in(left: Any, right: Any) -> list[Any]:
    """What one list has and the other has not; nothing where they are not lists."""
    both = isinstance(left, list) and isinstance(right, list)
    return [x for x in left if x not in right] if both else []


def standard(module: str) -> bool:
    return module.partition(".")[0] in {*sys.stdlib_module_names, *OTHERS}


def hidden(file: dict[str, Any]) -> bool:
    return bool(file["cloexec"]) and file["fd"] >= FIRST_HIDDEN_FD
