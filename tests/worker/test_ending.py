"""`main_ended` is said when main ended well, and in no other case, whatever comes after it.

Each script leaves a function behind that kills it during the interpreter's own end, which is
where native libraries crash.
"""

from pathlib import Path

import pytest

from .harness import TEARDOWN, environment, run

CRASH = """
import atexit, os, signal, sys, threading, time
atexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))
"""
CAUGHT = """
def leave(code):
    sys.exit(code)
try:
    leave(0)
except SystemExit:
    pass
"""

WELL = {
    "returns": "x = 1",
    "returns nothing to run": "",
    "sys.exit()": "sys.exit()",
    "sys.exit(0)": "sys.exit(0)",
    "sys.exit(None)": "sys.exit(None)",
    "sys.exit(False)": "sys.exit(False)",
    "sys.exit(main())": "def main(): return None\nsys.exit(main())",
    "exit imported": "from sys import exit as leave\nleave(0)",
    "deep inside": "def f(n): return f(n - 1) if n else sys.exit(0)\nf(50)",
    "caught, then returns": CAUGHT,
    "caught, then sys.exit(0)": CAUGHT + "sys.exit(0)",
    "an exception was handled": "try: 1 / 0\nexcept ZeroDivisionError: pass",
    "a thread failed": (
        "threading.excepthook = lambda args: None\n"
        "t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()"
    ),
    "a thread exits": "t = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join()",
    "a daemon thread lives": "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "a forked child failed": "pid = os.fork()\nif not pid: os._exit(3)\nos.waitpid(pid, 0)",
    "an executor is left": (
        "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit(int)"
    ),
}
NOT_WELL = {
    "exception": "raise ValueError",
    "sys.exit(3)": "sys.exit(3)",
    "sys.exit('text')": "sys.exit('text')",
    "sys.exit(0.0)": "sys.exit(0.0)",
    "sys.exit(0, 0)": "sys.exit(0, 0)",
    "raise SystemExit(3)": "raise SystemExit(3)",
    "raise SystemExit('text')": "raise SystemExit('text')",
    "exit(4)": "exit(4)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "SIGINT": "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "os._exit(0)": "os._exit(0)",
    "os._exit(3)": "os._exit(3)",
    "caught, then raise SystemExit(3)": CAUGHT + "raise SystemExit(3)",
    "caught, then raise SystemExit(3) inside": (
        "try: sys.exit(0)\nexcept SystemExit: raise SystemExit(3)"
    ),
    "replaced in finally": "try: sys.exit(0)\nfinally: raise SystemExit(3)",
    "replaced in a caller": (
        "def f():\n    try: sys.exit(0)\n    except SystemExit: raise SystemExit(3)\nf()"
    ),
    "replaced by a context manager": (
        "class Manager:\n"
        "    def __enter__(self): pass\n"
        "    def __exit__(self, *_): raise SystemExit(3)\n"
        "with Manager(): sys.exit(0)"
    ),
    "swallowed by C, then raise SystemExit(3)": (
        "class Object:\n    def __del__(self): sys.exit(0)\n"
        "sys.unraisablehook = lambda *_: None\nObject()\nraise SystemExit(3)"
    ),
    "a thread's sys.exit(0), then raise SystemExit(3)": (
        "t = threading.Thread(target=sys.exit); t.start(); t.join()\nraise SystemExit(3)"
    ),
    "sys.exit(3) after catching 0": "try: sys.exit(0)\nexcept SystemExit: sys.exit(3)",
    "excepthook exits with 0": "sys.excepthook = lambda *_: sys.exit(0)\nraise ValueError",
}
# Ended well, but by a way on which that cannot be known: as under torchrun.
UNKNOWN = {
    "raise SystemExit": "raise SystemExit",
    "raise SystemExit(0)": "raise SystemExit(0)",
    "sys.exit(0) inside a try": "try: sys.exit(0)\nfinally: pass",
}
CASES = [
    pytest.param(body, latched, id=name)
    for group, latched in ((WELL, True), (NOT_WELL, False), (UNKNOWN, False))
    for name, body in group.items()
]


@pytest.mark.parametrize("way", ["script", "module", "folder"])
@pytest.mark.parametrize(("body", "latched"), CASES)
def test_latch(tmp_path: Path, body: str, latched: bool, way: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("script.py", "__main__.py"):
        (package / name).write_text(CRASH + body)
    args = {"script": ["package/script.py"], "module": ["-m", "package.script"]}
    options = {"env": environment(), "cwd": tmp_path}
    chosen = args.get(way, ["package"])
    result = run("observe", chosen, **options)
    assert ("main_ended" in result.kinds) == latched
    assert "bug" not in result.kinds
    assert (result.page[1] == TEARDOWN) == latched
    if way != "folder":
        assert result.seen == run("plain", chosen, **options).seen


THREAD = """
def work():
    time.sleep(0.3)
    BODY
threading.Thread(target=work).start()
"""


@pytest.mark.parametrize(
    ("body", "latched"),
    [("pass", True), ("os.kill(os.getpid(), signal.SIGKILL)", False), ("os._exit(3)", False)],
)
def test_threads_outlive_main(tmp_path: Path, body: str, latched: bool) -> None:
    """Main has ended well, yet the program has not while a thread of it still works."""
    no_crash = CRASH.partition("atexit.register")[0]
    (tmp_path / "s.py").write_text(no_crash + THREAD.replace("BODY", body))
    result = run("observe", ["s.py"], env=environment(), cwd=tmp_path)
    assert ("main_ended" in result.kinds) == latched
    assert result.page[1] == TEARDOWN


def test_crash_after_threads(tmp_path: Path) -> None:
    """With threads at the end, an exit handler of the script's comes before ours."""
    (tmp_path / "s.py").write_text(CRASH + THREAD.replace("BODY", "pass"))
    result = run("observe", ["s.py"], env=environment(), cwd=tmp_path)
    assert result.code == -11
    assert "main_ended" not in result.kinds


def test_forked_child_says_nothing(tmp_path: Path) -> None:
    """A child that runs to its end is not the worker, and does not hold the channel open."""
    (tmp_path / "s.py").write_text(
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    sys.exit(0)\n"
        "os.wait()\n"
        "if os.fork() == 0:\n"
        "    os.close(1); os.close(2); time.sleep(60)\n"
        "os._exit(3)\n"
    )
    result = run("observe", ["s.py"], env=environment(), cwd=tmp_path)  # ends with the channel
    assert (result.code, result.kinds) == (3, ["hook"])


def test_traceback_of_exit_is_its_own(tmp_path: Path) -> None:
    """Error files quote it: the recorder in the place of sys.exit must leave no line there."""
    (tmp_path / "s.py").write_text(
        "import sys, traceback, unittest.mock\n"
        "def main():\n    sys.exit(3)\n"
        "try: main()\nexcept SystemExit: traceback.print_exc()\n"
        "with unittest.mock.patch('sys.exit') as exit: sys.exit(4)\n"
        "print(exit.call_args, sys.exit.__name__, sys.exit.__module__)\n"
        "import pickle; print(pickle.loads(pickle.dumps(sys.exit)) is sys.exit)\n"
        "sys.exit('last words')\n"
    )
    options = {"env": environment(), "cwd": tmp_path}
    assert run("observe", ["s.py"], **options).seen == run("plain", ["s.py"], **options).seen
