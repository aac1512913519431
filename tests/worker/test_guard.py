"""Where the script is not the one that was observed, it gets a cold start, and nobody notices.

Every script here runs without us first; what it shows must be the same from a standby.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from .harness import Result, environment, plan_for, run, small_torch, warm

PLAN = plan_for()
LATE = plan_for(late={"env": {}, "gone": []})
SET_THREADS = plan_for(env={"OMP_NUM_THREADS": "2"})
SHOW_THREADS = "print(torch.get_num_threads(), torch.__file__, sorted(os.environ))\n"
HEAD = "import os, sys\n"


def compare(folder: Path, script: str, plan: dict[str, Any], **options: Any) -> Result:
    """Run without us and from a standby; the same must come out. Returns the second."""
    (folder / "s.py").write_text(HEAD + script)
    options = {"env": environment(), "cwd": folder, **options}
    plain = run("plain", ["s.py"], **options)
    result = warm(["s.py"], plan, **options)
    assert result.seen == plain.seen
    assert "bug" not in result.kinds
    return result


def why(result: Result) -> str:
    """Reason for starting over; AssertionError if it did not, properly."""
    assert result.kinds == ["hook", "ready", "cold", "hook", "main_ended"]
    assert result.messages[3]["mode"] == "cold"
    assert result.messages[0]["pid"] == result.messages[3]["pid"]
    return str(result.message("cold")["why"])


def test_observed_change_is_replayed(tmp_path: Path) -> None:
    script = "os.environ['OMP_NUM_THREADS'] = '2'\nimport torch\n" + SHOW_THREADS
    result = compare(tmp_path, script, SET_THREADS)
    assert result.kinds == ["hook", "ready", "main_ended"]
    assert result.stdout.startswith("2 ")


def test_observed_change_is_another_one_now(tmp_path: Path) -> None:
    script = "os.environ['OMP_NUM_THREADS'] = '1'\nimport torch\n" + SHOW_THREADS
    result = compare(tmp_path, script, SET_THREADS)
    assert why(result) == "environment differs: OMP_NUM_THREADS"
    assert result.stdout.startswith("1 ")


def test_numpy_then_a_variable(tmp_path: Path) -> None:
    script = "import numpy; os.environ['OMP_NUM_THREADS'] = '2'\nimport torch\n" + SHOW_THREADS
    result = compare(tmp_path, script, {**SET_THREADS, "roots": ["numpy"]})
    assert why(result) == "environment differs: OMP_NUM_THREADS"


# What the script does before `import torch`, and why it starts over.
MISMATCHES = {
    "derived from the port": (
        "os.environ['URL'] = 'tcp://' + os.environ['MASTER_PORT']",
        "environment differs: URL",
    ),
    "affinity": (
        "os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})",
        "CPU affinity or dlopen flags differ",
    ),
    "dlopen flags": (
        "sys.setdlopenflags(os.RTLD_GLOBAL | os.RTLD_NOW)",
        "CPU affinity or dlopen flags differ",
    ),
    "native library": (
        "import numpy",
        "native libraries were loaded before: ",
    ),
    "fork": (
        "if os.fork() == 0: os._exit(0)\nos.wait()",
        "forked before importing torch",
    ),
    "a folder that shadows": (
        "sys.path.insert(0, 'lib')",
        "sys.path has lib, which has modules that torch looks for",
    ),
    "what survives exec": (
        "import signal\n"
        "assert signal.getitimer(signal.ITIMER_REAL) == (0, 0) and os.umask(0o7) == 0o22\n"
        "assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL\n"
        "assert not signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN\n"
        "signal.setitimer(signal.ITIMER_REAL, 600); signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "os.chdir('lib'); os.environ['X'] = '1'",
        "environment differs: X",
    ),
    "a module of the script's own making": (
        "import types; sys.modules['torch.extra'] = types.ModuleType('torch.extra')",
        "sys.modules has another torch.extra",
    ),
    "in another thread": (
        "import threading\n"
        "os.environ['X'] = '1'\n"
        "thread = threading.Thread(target=__import__, args=('torch',))\n"
        "thread.start(); thread.join()",
        "environment differs: X",
    ),
}
# Still dies with the agent; and what is shown is what there is without us.
AFTER = """
import torch
print(torch.__version__, sorted(os.environ), os.getcwd(), os.getpid() == os.getsid(0))
import ctypes
death = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death))
print(death.value, file=open(os.environ["DEATH"], "w"))
"""


@pytest.mark.parametrize(("before", "reason"), MISMATCHES.values(), ids=MISMATCHES.keys())
def test_starts_over(tmp_path: Path, before: str, reason: str) -> None:
    if "affinity" in before and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU only")
    (tmp_path / "lib").mkdir()
    # The standard library's own, so that torch works with it too.
    (tmp_path / "lib" / "queue.py").write_text(Path(os.__file__).with_name("queue.py").read_text())
    plan, env = small_torch(tmp_path)
    env["DEATH"] = str(tmp_path / "death")
    old = os.umask(0o22)
    try:
        result = compare(tmp_path, before + AFTER, plan, env=env)
    finally:
        os.umask(old)
    assert why(result).startswith(reason)
    assert (tmp_path / "death").read_text() == "9\n"


OTHER = "print('another torch'); __version__ = 'mine'\n"


def test_another_torch(tmp_path: Path) -> None:
    """By a trick with sys.path; and one beside the script, which is known before it runs."""
    (tmp_path / "lib" / "torch").mkdir(parents=True)
    (tmp_path / "lib" / "torch" / "__init__.py").write_text(OTHER)
    script = "sys.path.insert(0, 'lib')\nimport torch\nprint(torch.__version__)\n"
    assert why(compare(tmp_path, script, PLAN)) == "torch would come from elsewhere"
    (tmp_path / "torch.py").write_text(OTHER)
    script = "print(1)\nimport torch\nprint(torch.__version__)\n"
    assert why(compare(tmp_path, script, PLAN)) == f"{tmp_path} shadows torch"


def test_shadowed_standard_library(tmp_path: Path) -> None:
    """A `queue.py` beside the script: before the script runs, so nothing runs twice."""
    plan, env = small_torch(tmp_path)
    (tmp_path / "queue.py").write_text("print('my queue')")
    result = compare(tmp_path, "print(1); import queue; print(queue.__file__)", plan, env=env)
    assert why(result) == f"{tmp_path} shadows queue"
    assert run("plain", ["-m", "s"], env=env, cwd=tmp_path).stdout == result.stdout
    (tmp_path / "other").mkdir()
    again = warm(["-m", "s"], plan, env=env, cwd=tmp_path)
    assert (why(again), again.stdout) == (why(result), result.stdout)


def test_tricks_with_sys_path_are_observed(tmp_path: Path) -> None:
    """What a standby has loaded of the standard library it could not hand to such a script."""
    _, env = small_torch(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "queue.py").write_text("")
    (tmp_path / "s.py").write_text("import sys; sys.path.insert(0, 'lib'); import torch, queue")
    result = run("observe", ["s.py"], env=env, cwd=tmp_path)
    assert result.kinds == ["hook", "unfit", "main_ended"]
    assert result.message("unfit")["why"] == "sys.path has lib, which shadows queue"


def test_module_beside_that_torch_looks_for(tmp_path: Path) -> None:
    """A module which torch would have taken, had it been there: optional dependencies."""
    plan, env = small_torch(tmp_path)
    (tmp_path / "opt_einsum.py").write_text("print('my opt_einsum')\nraise ImportError")
    result = compare(tmp_path, "print(1)\nimport torch", plan, env=env)
    assert why(result) == f"{tmp_path} shadows opt_einsum"


def test_path_that_only_grows_at_the_end(tmp_path: Path) -> None:
    """Shadows nothing that was found, only what was not."""
    plan, env = small_torch(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "queue.py").write_text("not Python")
    script = "sys.path.append('lib')\nimport torch\nprint(torch.__version__)"
    result = compare(tmp_path, script, plan, env=env)
    assert result.kinds == ["hook", "ready", "main_ended"]
    (tmp_path / "lib" / "opt_einsum.py").write_text("print('my opt_einsum')")
    assert why(compare(tmp_path, script, plan, env=env)).startswith("sys.path has lib")
    observed = run("observe", ["s.py"], env=env, cwd=tmp_path)
    assert observed.kinds == ["hook", "observed", "main_ended"]


def test_environment_of_go_differs(tmp_path: Path) -> None:
    """Then the interpreter itself might have started differently."""
    plan, env = small_torch(tmp_path)
    (tmp_path / "s.py").write_text("import os; print(os.environ['NEW'])")
    result = warm(["s.py"], plan, go_env={**env, "NEW": "1"}, env=env, cwd=tmp_path)
    assert (result.stdout, result.code) == ("1\n", 0)
    assert why(result) == "environment differs: NEW"


QUIET = {
    # Packages that come with torch are given back one by one; torch stays unseen.
    "looks and decides": (
        "import importlib.util, importlib.metadata\n"
        "print(importlib.util.find_spec('torch').origin, 'torch' in sys.modules)\n"
        "print(importlib.metadata.version('torch'))\n"
        "import typing_extensions\nprint('torch' in sys.modules, typing_extensions.__spec__.name)\n"
        "print(importlib.util.find_spec('torch.nn').origin, 'torch' in sys.modules)\n"
        "import torch, typing_extensions as again\nprint(again is typing_extensions)\n"
        "from torch.utils.data import DataLoader\nprint(DataLoader.__module__)\n"
    ),
    "numpy first": (
        "import numpy\nprint('torch' in sys.modules, numpy.__spec__.origin)\n"
        "import torch\nprint(torch.from_numpy(numpy.ones(2)).sum().item())\n"
    ),
    "late": (
        "import sympy\nprint(sympy.__file__, 'torch' in sys.modules, 'mpmath' in sys.modules)\n"
        "import torch\nprint('torch._dynamo' in sys.modules, hasattr(sympy, 'Symbol'))\n"
        "from torch.fx.experimental import proxy_tensor\n"
        "print(torch.fx.experimental.proxy_tensor is proxy_tensor)\n"
        "import torch.fx.experimental.symbolic_shapes as shapes\nprint(shapes.__spec__.name)\n"
        "print(torch._dynamo.__name__, sys.modules['sympy'] is sympy)\n"
    ),
    "late in a forked child": (
        "import torch\nsys.stdout.flush()\n"
        "if os.fork() == 0:\n"
        "    os.environ['X'] = '1'\n"
        "    import torch._dynamo\n    print('child', torch._dynamo.__name__)\n"
        "    sys.exit(0)\n"
        "print(os.wait()[1])\n"
    ),
}


@pytest.mark.parametrize(("name", "script"), QUIET.items(), ids=QUIET.keys())
def test_stays_warm(tmp_path: Path, name: str, script: str) -> None:
    plan = LATE if "late" in name else PLAN
    roots = ["numpy"] if "numpy" in script else []
    result = compare(tmp_path, script, {**plan, "roots": roots})
    assert result.kinds == ["hook", "ready", "main_ended"]


def test_at_exit(tmp_path: Path) -> None:
    """A script that is over is not started over, whatever its exit handlers import."""
    plan, env = small_torch(tmp_path)
    script = (
        "import atexit\n"
        "def last():\n    import torch\n    print(torch.__name__)\n"
        "atexit.register(last); os.environ['X'] = '1'\n"
    )
    assert compare(tmp_path, script, plan, env=env).kinds == ["hook", "ready", "main_ended"]


def test_late_mismatch(tmp_path: Path) -> None:
    """Too late to start over: the worker says so and goes, with a code of its own."""
    (tmp_path / "s.py").write_text(
        "import os, torch\nprint(1)\nos.environ['TORCH_LOGS'] = 'x'\nimport torch._dynamo\nprint(2)"
    )
    result = warm(["s.py"], LATE, env=environment(), cwd=tmp_path)
    assert (result.stdout, result.code) == ("1\n", 117)
    assert result.kinds == ["hook", "ready", "late_mismatch"]
    assert result.message("late_mismatch")["why"] == "environment differs: TORCH_LOGS"


LOUD = """
import os, warnings
os.environ["FROM_TORCH"] = "1"
os.write(1, b"on stdout\\n")
warnings.warn("a warning of this torch")
warnings.filterwarnings("ignore", "later")
class cuda:
    is_initialized = staticmethod(lambda: False)
"""


def test_output_of_the_import(tmp_path: Path) -> None:
    """Comes when the script imports torch; so do its effects."""
    plan, env = small_torch(tmp_path, LOUD)
    script = (
        "import os, sys, warnings\n"
        "print(len(warnings.filters), os.environ.get('FROM_TORCH'), file=sys.stderr)\n"
        "import torch\n"
        "print(len(warnings.filters), os.environ.get('FROM_TORCH'), file=sys.stderr)\n"
        "warnings.warn('later')\n"
    )
    (tmp_path / "s.py").write_text(script)
    options = {"env": env, "cwd": tmp_path}
    plain = run("plain", ["s.py"], **options)
    result = warm(["s.py"], plan, **options)
    assert (result.stdout, result.code) == ("", 0)
    assert result.kinds == ["hook", "ready", "main_ended"]
    # The order on stderr is kept; what went to stdout is there too.
    assert result.stderr.splitlines()[0] == plain.stderr.splitlines()[0]
    assert sorted(result.stderr.splitlines()) == sorted((plain.stderr + plain.stdout).splitlines())
    # A script that silences the import does not hear of it, at the price of a cold start.
    (tmp_path / "s.py").write_text("import warnings; warnings.simplefilter('ignore')\n" + script)
    plain = run("plain", ["s.py"], **options)
    result = warm(["s.py"], plan, **options)
    assert result.stdout == plain.stdout
    assert why(result) == "what the import prints would go elsewhere"


def test_cannot_start_over(tmp_path: Path) -> None:
    """Where even that fails, the agent restarts the attempt cold."""
    plan, env = small_torch(tmp_path)
    (tmp_path / "s.py").write_text(
        "import os, sys\nsys.executable = '/not/there'\nos.environ['X'] = '1'\nimport torch\n"
    )
    result = warm(["s.py"], plan, env=env, cwd=tmp_path)
    assert (result.stdout, result.stderr, result.code) == ("", "", 117)
    assert result.kinds == ["hook", "ready", "cold", "bug", "late_mismatch"]
