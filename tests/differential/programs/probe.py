"""What a worker sees, written as JSON, before it has imported anything that it need not.

Run as a script, as a module and as a directory. What it is to do is in the environment, in
variables that the comparison leaves out: DIFF_OUT (folder for the results), DIFF_LIB (where
the rest of the probe lies), DIFF_DO (words, see `main`), DIFF_TORCH ("1": import torch before
waiting), DIFF_OURS ("0" under torchrun, whose restarted groups often do not find each other).
"""

import sys

MODULES = sorted(sys.modules)
DOORS = [repr(finder)[:60] for finder in sys.meta_path]
MAIN = {k: repr(v)[:200] for k, v in vars().items() if k not in {"MODULES", "DOORS", "sys"}}
PATH = list(sys.path)
THREADS = sys._current_frames().keys()

import os  # noqa: E402

FREE = os.open("/dev/null", os.O_RDONLY)
os.close(FREE)

import importlib.util  # noqa: E402
from typing import Any  # noqa: E402


def load(name: str) -> Any:
    """Another file of the probe, without touching sys.path."""
    spec = importlib.util.spec_from_file_location(name, f"{os.environ['DIFF_LIB']}/{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    seen, acts = load("seen"), load("acts")
    early = {
        "modules": MODULES,
        "finders": DOORS,
        "main": MAIN,
        "path": PATH,
        "threads": len(THREADS),
        "first_free_fd": FREE,
    }
    words = os.environ["DIFF_DO"].split()
    attempt, rank = seen.attempt(), os.environ["RANK"]
    result = early | seen.everything()
    if "stdin" in words:
        result["stdin_text"] = sys.stdin.read()
    if "torch" in words:
        result["torch"] = seen.torch_facts()
    if "group" in words and (attempt == 0 or os.environ["DIFF_OURS"] == "1"):
        result["group"] = seen.group_facts(own_store="store" in words)
    acts.talk(rank, attempt, alone="talk" in words)
    seen.write(f"{attempt}-{rank}", result)
    if "again" in words and attempt == 0:
        if os.environ["DIFF_TORCH"] == "1":
            import torch  # noqa: F401
        acts.wait_for("go")
        acts.fail_first(rank)
    acts.end(words, rank)


if __name__ == "__main__":
    main()
