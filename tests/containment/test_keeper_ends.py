"""The keeper ends as its agent does, and takes its private directory with it."""

import os
import signal
import stat
import subprocess

import pytest

from containment.surroundings import (
    environment,
    needs_root,
    nothing_left,
    python,
    running,
    wait_until,
)
from resilient.agent import keeper as keeper_module
from resilient.agent import keeper_dir
from resilient.model.errors import Unavailable


@pytest.mark.parametrize("code", [0, 1, 3, 75, 255])
def test_its_exit_code(job, code):
    assert job.start(job.command("leave", str(code))).wait(30) == code
    assert job.private_dirs() == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGABRT", "SIGSEGV", "SIGUSR1"])
def test_its_signal(job, name):
    assert job.start(job.command("die", name)).wait(30) == -getattr(signal, name)
    assert job.private_dirs() == []


@pytest.mark.parametrize(("what", "words"), [("text", "the end\n"), ("error", "broken\n")])
def test_its_exception(job, what, words):
    keeper = job.start(job.command("fail", what), stderr=subprocess.PIPE)
    assert keeper.communicate(timeout=30)[1].endswith(words)
    assert keeper.returncode == 1


def test_output_and_exit_handlers_happen_once(job):
    keeper = job.start(job.command("once"), stdout=subprocess.PIPE)
    lines = keeper.communicate(timeout=30)[0]
    assert lines == "before inside\nat exit, from inside\nat exit, from before\n"
    assert keeper.returncode == 0


def test_the_private_directory_is_private_and_short(job):
    keeper = job.start(job.command("log"))
    job.ready()
    path = job.text("private")
    assert os.path.dirname(path) == job.folder
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    assert len(path) < 80
    open(f"{path}/socket", "w").close()
    job.stop()
    assert keeper.wait(30) == 0
    assert not os.path.exists(path)


def test_the_runtime_directory_comes_first(job):
    os.mkdir(f"{job.folder}/runtime", 0o700)
    env = job.environment() | {"XDG_RUNTIME_DIR": f"{job.folder}/runtime"}
    assert job.start(job.command("leave", "0"), env=env).wait(30) == 0
    assert os.path.dirname(job.text("private")) == f"{job.folder}/runtime"
    assert os.listdir(f"{job.folder}/runtime") == []


@pytest.mark.parametrize("runtime", ["/nonexistent", "relative", "", "/proc"])
def test_a_useless_runtime_directory_is_passed_over(job, runtime):
    env = job.environment() | {"XDG_RUNTIME_DIR": runtime}
    assert job.start(job.command("leave", "0"), env=env).wait(30) == 0
    assert os.path.dirname(job.text("private")) == job.folder


def test_without_a_keeper_the_directory_lasts_as_long_as_the_program(job):
    code = (
        "import os; from resilient.agent import keeper; "
        "path = keeper.private_dir(); assert path == keeper.private_dir(); "
        "assert os.path.isdir(path); print(path, flush=True); "
        "child = os.fork(); child or exit(); os.waitpid(child, 0); assert os.path.isdir(path)"
    )
    program = job.start(python("-c", code), stdout=subprocess.PIPE)
    path = program.communicate(timeout=30)[0].strip()
    assert program.returncode == 0
    assert path.startswith(job.folder)
    assert not os.path.exists(path)


def test_no_place_for_a_directory_is_said(monkeypatch):
    monkeypatch.setattr(keeper_dir, "_path", None)
    monkeypatch.setattr(keeper_dir, "_places", lambda: ["/proc"])
    with pytest.raises(Unavailable, match="set TMPDIR"):
        keeper_module.private_dir()


def test_the_keeper_imports_nothing_heavy():
    code = (
        "import sys, resilient.agent.keeper; "
        "print(*{'torch', 'psutil', 'rich', 'asyncio', 'multiprocessing'} & {*sys.modules})"
    )
    done = subprocess.run(
        python("-c", code), env=environment(), stdout=subprocess.PIPE, check=True, text=True
    )
    assert done.stdout == "\n"


IN_A_NAMESPACE = ["unshare", "-pf", "--mount-proc"]


@pytest.mark.root
@needs_root
@pytest.mark.parametrize(
    ("mode", "argument", "code"),
    [("leave", "3", 3), ("die", "SIGTERM", 128 + 15), ("die", "SIGKILL", 128 + 9)],
)
def test_as_pid_1_a_signal_becomes_a_code(job, mode, argument, code):
    assert job.start([*IN_A_NAMESPACE, *job.command(mode, argument)]).wait(30) == code
    assert job.private_dirs() == []


@pytest.mark.root
@needs_root
def test_as_pid_1_signals_arrive_and_everything_is_reaped(job):
    unshare = job.start([*IN_A_NAMESPACE, *job.command("nest", "plain", "daemon", "storm")])
    job.ready()
    wait_until(lambda: job.exists("storm"), "storm")
    with open(f"/proc/{unshare.pid}/task/{unshare.pid}/children") as file:
        keeper = int(file.read())
    os.kill(keeper, signal.SIGTERM)  # with a default action PID 1 would not even get it
    assert unshare.wait(30) == 143
    assert nothing_left(job.folder)
    assert running(job.folder) == []
