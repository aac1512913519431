"""Scripts of all kinds do the same without us, watched, and from a standby."""

import signal
from pathlib import Path
from typing import Any

import pytest

from .harness import STEP, TEARDOWN, Result, environment, plan_for, run, small_torch, warm

SMALL: dict[str, str] = {
    "SystemExit": "import torch\nraise SystemExit(3)",
    "text": "import torch, sys\nsys.exit('last words')",
    "os._exit": "import torch, os\nos._exit(5)",
    "interrupted": "import torch\nraise KeyboardInterrupt",
    "SIGINT": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
    "SIGTERM": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "SIGSEGV": "import torch, os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "handler": (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "import torch\n"
        "os.kill(os.getpid(), signal.SIGTERM)"
    ),
    "traceback": (
        "import torch, warnings\n"
        "warnings.warn('here', stacklevel=1)\n"
        "def inner(): raise ValueError('inner')\n"
        "def outer():\n"
        "    try: inner()\n"
        "    except ValueError as error: raise RuntimeError('outer') from error\n"
        "outer()"
    ),
    "failing import": "import torch.not_there",
    "failing import of another": "import torch\nimport not_there",
    "syntax": "import torch\nthis is no Python",
    "threads and atexit": (
        "import atexit, threading, time, torch\n"
        "atexit.register(print, 'at exit')\n"
        "def work():\n    time.sleep(0.2); print('thread')\n    raise ValueError('in thread')\n"
        "threading.Thread(target=work, name='worker').start()\n"
        "print('main')"
    ),
    "executor": (
        "from concurrent.futures import ThreadPoolExecutor\nimport torch\n"
        "pool = ThreadPoolExecutor(1)\n"
        "for n in range(3): pool.submit(print, 'job', n)\n"
    ),
    "pdb": ("import torch\ndef f(x):\n    breakpoint()\n    return x + 1\nprint(f(41))"),
    "run_path": "import runpy, torch\nrunpy.run_path('other.py', run_name='__main__')",
    "exec_module": "import torch, importlib\nprint(importlib.reload(torch).__version__)",
    "path": "import sys; sys.path.insert(0, 'nothing'); import torch\nprint(sys.path[:2])",
}
PDB = b"p x\nwhere\nnext\nreturn\ncontinue\n"


@pytest.mark.parametrize("way", ["script", "module"])
@pytest.mark.parametrize("text", SMALL.values(), ids=SMALL.keys())
def test_small_scripts(tmp_path: Path, text: str, way: str) -> None:
    plan, env = small_torch(tmp_path)
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "s.py").write_text(text)
    (tmp_path / "other.py").write_text("print(__name__, __file__)")
    args = ["package/s.py"] if way == "script" else ["-m", "package.s", "an argument"]
    options: dict[str, Any] = {"env": env, "cwd": tmp_path, "stdin": PDB}
    plain = run("plain", args, **options)
    observed = run("observe", args, **options)
    standby = warm(args, plan, **options)
    assert plain.stderr == "" or plain.code or "thread" in text or "warn" in text
    assert observed.seen == plain.seen
    assert standby.seen == plain.seen
    well = ["main_ended"] if plain.code == 0 else []
    assert standby.kinds == ["hook", "ready", *well]
    assert [kind for kind in observed.kinds if kind != "observed"] == ["hook", *well]


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "error", "PYTHONWARNDEFAULTENCODING": "1"},
        {"PYTHONOPTIMIZE": "2", "PYTHONSAFEPATH": "1", "PYTHONNODEBUGRANGES": "1"},
        {"LC_ALL": None, "LANG": None, "LC_CTYPE": None, "PYTHONUTF8": "0"},  # sets LC_CTYPE
        {
            "LATIN": b"caf\xe9".decode(errors="surrogateescape"),
            "EMPTY": "",
            "PYTHONTRACEMALLOC": "1",
        },
        {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "latin-1:replace"},
    ],
)
def test_settings_of_the_interpreter(tmp_path: Path, variables: dict[str, str | None]) -> None:
    plan, env = small_torch(tmp_path)
    env = environment(PYTHONPATH=env["PYTHONPATH"], **variables)
    (tmp_path / "s.py").write_text(
        "import os, sys, torch, warnings\n"
        "print(list(os.environ.items()), sys.flags, sys._xoptions, warnings.filters)\n"
        "print(sys.stdout.encoding, sys.stdout.errors, sys.getfilesystemencoding(), sys.path)\n"
        "os.environ['SHOWN'] = '\u00e9'; print(os.environb.get(b'LATIN'), os.environ['SHOWN'])\n"
    )
    options = {"env": env, "cwd": tmp_path}
    plain = run("plain", ["s.py"], **options)
    assert plain.code == 0, plain.stderr
    observed = run("observe", ["s.py"], **options)
    assert observed.seen == plain.seen
    assert observed.kinds == ["hook", "observed", "main_ended"]
    standby = warm(["s.py"], plan, **options)
    assert standby.seen == plain.seen
    assert standby.kinds == ["hook", "ready", "main_ended"]


def test_pdb_module(tmp_path: Path) -> None:
    """`python -m pdb script`: the debugger runs the script in its own frames."""
    plan, env = small_torch(tmp_path)
    (tmp_path / "s.py").write_text("import torch\nx = 1\nprint(x)\n")
    options = {"env": env, "cwd": tmp_path, "stdin": b"next\nnext\np x\nwhere\nquit\n"}
    plain = run("plain", ["-m", "pdb", "s.py"], **options)
    for result in (run("observe", ["-m", "pdb", "s.py"], **options),
                   warm(["-m", "pdb", "s.py"], plan, **options)):  # fmt: skip
        assert result.seen == plain.seen


CHILDREN = """
import multiprocessing, os, pickle, sys

class Item:
    def __init__(self, value): self.value = value
    def __reduce__(self): return Item, (self.value + 1,)

def work(item):
    import __main__
    return item.value, type(item).__module__, __name__, os.environ.get("PYTHONPATH"), str(sys.flags)

class Data:
    def __len__(self): return 4
    def __getitem__(self, index): return index * 2

if __name__ == "__main__":
    from torch.utils.data import DataLoader
    print(pickle.dumps(Item(1), 2))
    for method in ("spawn", "forkserver", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.apply(work, [Item(1)]))
    print([batch.tolist() for batch in DataLoader(Data(), batch_size=2, num_workers=1)])
"""
TRAIN = """
import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    loss = model(torch.ones(3, 4)).square().mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item())

if os.fork() == 0:  # no worker: its steps do not count
    optimizer.step()
    os._exit(0)
os.wait()

def double(x): return torch.relu(x) * 2
print(torch.compile(double, backend="eager", fullgraph=True)(torch.ones(2)))
print(torch._dynamo.utils.counters["frames"])
print([type(finder).__name__ for finder in __import__("sys").meta_path].count("Guard"))
dist.destroy_process_group()
"""


def both(folder: Path, text: str, plan: dict[str, Any], **changes: str) -> list[Result]:
    (folder / "s.py").write_text(text)
    options = {"env": environment(**changes), "cwd": folder}
    plain = run("plain", ["s.py"], **options)
    assert plain.code == 0, plain.stderr
    results = [run("observe", ["s.py"], **options), warm(["s.py"], plan, **options)]
    for result in results:
        assert (result.stdout, result.code) == (plain.stdout, plain.code), result.stderr
        assert sorted(result.stderr.splitlines()) == sorted(plain.stderr.splitlines())
        assert result.kinds[-1] == "main_ended"
    return results


def test_children_of_all_kinds(tmp_path: Path) -> None:
    both(tmp_path, CHILDREN, plan_for())


def test_training(tmp_path: Path) -> None:
    """DDP, torch.compile, and the page."""
    late = plan_for(late={"env": {}, "gone": []})
    for result in both(tmp_path, TRAIN, late, MASTER_PORT="0"):
        phase, steps, stepped, base, collective, first = result.page[1:7]
        assert (phase, steps, base) == (TEARDOWN, 5, 2)
        assert 0 < collective < first
        assert stepped > 0


def test_killed_while_training(tmp_path: Path) -> None:
    """What the page says then is how far the rank had come."""
    text = "import os, signal\n" + TRAIN.replace(
        "if os.fork", "os.kill(os.getpid(), signal.SIGKILL)\nif os.fork"
    )
    (tmp_path / "s.py").write_text(text)
    result = run("observe", ["s.py"], env=environment(MASTER_PORT="0"), cwd=tmp_path)
    assert result.code == -signal.SIGKILL
    assert result.page[1:3] == [STEP, 5]
    assert result.kinds == ["hook", "observed", "late"]
