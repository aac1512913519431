"""A standby from its plan to its go, and all the ways in which it may end before."""

import contextlib
import os
import pty
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .harness import LOAD, START, STEP, Worker, environment, plan_for, small_torch

PLAN = plan_for()
SCRIPT = """
import os, sys
print(os.getcwd(), os.environ["RANK"], os.environ.get("GOES"), os.environ["CUSTOM"])
print(open("/proc/self/comm").read().strip(), open("/proc/self/oom_score_adj").read().strip())
print({open(f"/proc/self/task/{t}/comm").read() for t in os.listdir("/proc/self/task")})
print(sys.stdout.isatty(), sys.stdout.fileno(), os.open("/dev/null", 0))
print("to stderr", file=sys.stderr)
import torch
print(torch.initial_seed(), os.getpid())
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter])
(parameter * 2).sum().backward()
optimizer.step()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.py").write_text(SCRIPT)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nprint('out of sitecustomize'); print('err', file=sys.stderr)\n"
        "os.environ['CUSTOM'] = 'yes'\n"
    )
    return tmp_path


def proc(worker: Worker, name: str) -> str:
    return Path(f"/proc/{worker.process.pid}/{name}").read_text().strip()


def standby(folder: Path, **options: Any) -> Worker:
    env = options.pop("env", environment(PYTHONPATH=str(folder), GOES="1"))
    return Worker("standby", [str(folder / "s.py")], env=env, cwd=folder, **options)


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    master, slave = pty.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    yield master, slave
    os.close(master)


def test_from_plan_to_go(folder: Path) -> None:
    """Two standbys, told to go with other descriptors, folder, environment and page."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    name = Path(sys.executable).name[:15]
    seeds = set()
    # Threads of numpy's BLAS start while the process bears a standby's name.
    env = environment(PYTHONPATH=str(folder), GOES="1", OMP_NUM_THREADS=None)
    numpy_first = {**PLAN, "roots": ["numpy"]}
    for plan in (PLAN, numpy_first):
        with standby(folder, env=env) as worker, terminal() as (master, slave):
            before = proc(worker, "oom_score_adj")
            worker.send("plan", **plan)
            assert worker.wait_for("ready")["late"] is False
            assert proc(worker, "comm") == "rr-standby"
            assert proc(worker, "oom_score_adj") == "1000"
            assert worker.words()[1] == START
            new = {k: v for k, v in env.items() if k != "MASTER_ADDR"} | {"RANK": "7"}
            page = os.memfd_create("other page")
            os.ftruncate(page, 4096)
            worker.send("go", [slave, slave, page], env=new, cwd=str(elsewhere), fds=[1, 2],
                        page=True)  # fmt: skip
            os.close(slave)
            result = worker.finish()
            lines = os.read(master, 4096).decode().splitlines()
        seeds.add(lines.pop().split()[0])
        assert (result.stdout, result.stderr, result.code) == ("", "", 0)
        assert lines == [
            "out of sitecustomize",
            "err",
            f"{elsewhere} 7 1 yes",
            f"{name} {before}",
            f"{{'{name}\\n'}}",
            "True 1 3",
            "to stderr",
        ]
        assert result.kinds == ["hook", "ready", "main_ended"]
        assert int.from_bytes(os.pread(page, 8, 16), "little") == 1  # steps, in the new page
        assert result.page[1:3] == [START, 0]
        os.close(page)
    assert len(seeds) == 2


def test_go_while_importing(folder: Path) -> None:
    """The message waits in the socket; the page is the first one; output goes where it did."""
    with standby(folder) as worker:
        worker.send("plan", **PLAN)
        worker.send("go", env=environment(PYTHONPATH=str(folder)), cwd=str(folder), fds=[])
        # A variable that is gone is none of those that may differ.
        assert worker.wait_for("cold")["why"] == "environment differs: GOES"
        result = worker.finish()
    assert result.kinds == ["hook", "ready", "cold", "hook", "main_ended"]
    assert result.stdout.splitlines()[0] == "out of sitecustomize"
    # Before anything of the script ran: only sitecustomize, which a new start runs again.
    assert result.stdout.splitlines().count(f"{folder} 0 None yes") == 1
    assert result.page[1:3] == [STEP + 1, 1]


@pytest.mark.parametrize("moment", ["before the plan", "while importing", "waiting"])
def test_ends_with_the_agents_end(folder: Path, moment: str) -> None:
    plan, env = small_torch(folder)
    with standby(folder, env=env) as worker:
        if moment != "before the plan":
            worker.send("plan", **plan)
        if moment == "waiting":
            worker.wait_for("ready")
        worker.channel.shutdown(1)
        result = worker.finish()
    assert (result.code, result.stdout) == (0, "")
    assert result.kinds[:1] == ["hook"]


@pytest.mark.parametrize(
    ("plan", "kind", "code"),
    [
        ({**PLAN, "torch_path": "/nowhere/torch"}, "cold", 0),
        ({**PLAN, "roots": ["not_there"]}, "bug", 1),
        ({"roots": []}, "bug", 1),
    ],
)
def test_useless_plans(folder: Path, plan: dict[str, Any], kind: str, code: int) -> None:
    """Said, and never the user's script."""
    with standby(folder) as worker:
        worker.send("plan", **plan)
        result = worker.finish()
    assert (result.code, result.stdout, result.kinds) == (code, "", ["hook", kind])


def test_wrong_go(folder: Path) -> None:
    with standby(folder) as worker:
        worker.send("go", env={}, cwd="/", fds=[])
        result = worker.finish()
    assert (result.code, result.stdout, result.kinds) == (1, "", ["hook", "bug"])


def test_interrupted(folder: Path) -> None:
    """A stray Ctrl-C or SIGTERM ends a standby; it does not set the script free."""
    for signum, code in ((signal.SIGINT, 1), (signal.SIGTERM, -signal.SIGTERM)):
        with standby(folder) as worker:
            worker.wait_for("hook")
            worker.process.send_signal(signum)
            result = worker.finish()
        assert (result.code, result.stdout) == (code, "")


@pytest.mark.parametrize(("stdin", "phase"), [(b"", START), (b"\n", LOAD)])
def test_phases(folder: Path, stdin: bytes, phase: int) -> None:
    """A standby that has torch is at START until its script has it."""
    (folder / "s.py").write_text("input(); import torch; print(1, flush=True); input()")
    plan, env = small_torch(folder)
    with standby(folder, stdin=stdin, env=env) as worker:
        worker.send("plan", **plan)
        worker.wait_for("ready")
        worker.send("go", env=env, cwd=str(folder), fds=[])
        result = worker.finish()
    assert (result.page[1], result.stdout) == (phase, "1\n" if phase else "")
    assert "EOFError" in result.stderr
