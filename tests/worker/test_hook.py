"""The hook comes in, and leaves no trace; where it cannot work the script runs all the same."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .harness import HOOK, LOAD, START, Worker, environment, run, until

SHOW = """
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
print(json.dumps([
    os.environ.get("PYTHONPATH"), os.environ.get("RESILIENT_HOOK"), sys.path,
    sorted(p for p in sys.path_importer_cache if "hook" in p or "resilient" in p),
    os.open("/dev/null", os.O_RDONLY), "sitecustomize" in sys.modules,
]))
"""


@pytest.fixture
def show(tmp_path: Path) -> Path:
    (tmp_path / "s.py").write_text(SHOW)
    (tmp_path / "lib").mkdir()
    return tmp_path


@pytest.mark.parametrize("path", [None, "", "lib", "lib:", "::lib", "/nowhere:/tmp"])
def test_python_path_as_it_was(show: Path, path: str | None) -> None:
    options = {"env": environment(PYTHONPATH=path), "cwd": show}
    observed = run("observe", ["s.py"], **options)
    assert observed.seen == run("plain", ["s.py"], **options).seen
    assert observed.kinds == ["hook", "main_ended"]


def test_children_do_not_inherit(show: Path) -> None:
    """Neither the variables nor the descriptors."""
    script = show / "parent.py"
    script.write_text(
        "import os, subprocess, sys\n"
        "code = 'import os; print(sorted(map(int, os.listdir(\"/proc/self/fd\"))))'\n"
        "subprocess.run([sys.executable, '-c', code], close_fds=False)\n"
        "subprocess.run([sys.executable, 's.py'], close_fds=False)\n"
    )
    options = {"env": environment(), "cwd": show}
    observed = run("observe", ["parent.py"], **options)
    assert observed.seen == run("plain", ["parent.py"], **options).seen


@pytest.mark.parametrize(
    "text",
    [
        "print('mine')",
        "raise KeyError('mine')",
        "import not_there",
        "import sys; del sys.modules['sitecustomize']",
        "import sys; sys.exit(7)",
        "raise KeyboardInterrupt",
        "import sitecustomize, sys; print(sitecustomize is sys.modules[__name__])",
    ],
)
def test_sitecustomize_of_the_user(show: Path, text: str) -> None:
    (show / "lib" / "sitecustomize.py").write_text(text)
    options = {"env": environment(PYTHONPATH="lib"), "cwd": show}
    plain, observed = (run(mode, ["s.py"], **options) for mode in ("plain", "observe"))
    assert (observed.code, observed.stdout) == (plain.code, plain.stdout)
    if "KeyboardInterrupt" not in text and "exit" not in text:  # fatal: with a longer traceback
        assert observed.stderr == plain.stderr
        assert observed.kinds == ["hook", "main_ended"]


def test_shadowing_modules_stay_the_users(tmp_path: Path) -> None:
    """What the hook imports for itself must not take the place of the script's own modules."""
    for name in ("json", "socket", "tempfile"):
        (tmp_path / f"{name}.py").write_text(f"print('my {name}')")
    (tmp_path / "select").mkdir()
    (tmp_path / "select" / "__init__.py").write_text("print('my select')")
    (tmp_path / "struct").mkdir()  # no package: the standard library's wins
    (tmp_path / "s.py").write_text(
        "import json, socket, tempfile, select, struct, ctypes, sys\n"
        "print(struct.__file__, 'torch' in sys.modules)\n"
    )
    options = {"env": environment(), "cwd": tmp_path}
    for args in (["s.py"], ["-m", "s"]):
        observed = run("observe", args, **options)
        assert observed.seen == run("plain", args, **options).seen
        assert observed.kinds == ["hook", "main_ended"]


@pytest.mark.parametrize("flag", ["-E", "-I", "-S"])
def test_interpreters_that_ignore_us(show: Path, flag: str) -> None:
    """No hook, hence no report, hence never a standby."""
    result = run("observe", ["s.py"], env=environment(), cwd=show, flags=["-u", flag])
    assert (result.code, result.messages, result.page[0]) == (0, [], 0)


def test_site_run_by_the_script(show: Path) -> None:
    """Under -S a script may call site.main() itself: far too late to be a standby."""
    (show / "late.py").write_text("print('one'); import site; site.main(); print('two')")
    options = {"env": environment(), "cwd": show, "flags": ["-u", "-S"]}
    for mode in ("observe", "standby"):
        result = run(mode, ["late.py"], **options)
        assert (result.stdout, result.code, result.messages) == ("one\ntwo\n", 0, [])


def test_wrapper_that_execs(show: Path) -> None:
    """As numactl and taskset do: the process stays the agent's direct child."""
    wrapper = [shutil.which("env") or "env", "FOO=1", sys.executable]
    result = run("observe", ["s.py"], env=environment(), cwd=show, python=wrapper)
    assert (result.code, result.kinds) == (0, ["hook", "main_ended"])


def test_wrapper_that_stays_in_between(show: Path) -> None:
    """Then we are inert, but leave no trace either."""
    (show / "wrapper").write_text(f'#!/bin/sh\n"{sys.executable}" "$@"\nexit $?\n')
    (show / "wrapper").chmod(0o755)
    options = {"env": environment(), "cwd": show, "python": [str(show / "wrapper")]}
    plain, result = (run(mode, ["s.py"], **options) for mode in ("plain", "observe"))
    assert result.seen == plain.seen
    assert (result.messages, result.page[0]) == ([], 0)
    (show / "json.py").write_text("print('my json')\ndef dumps(x): return x")
    plain, result = (run(mode, ["s.py"], **options) for mode in ("plain", "observe"))
    assert result.seen == plain.seen
    standby = run("standby", ["s.py"], **options)  # never the user's script
    assert (standby.stdout, standby.code, standby.messages) == ("", 0, [])


def test_broken_set_up_fails_open(show: Path) -> None:
    """Whatever is wrong with what the agent gave, the script runs."""
    expected = json.loads(run("plain", ["s.py"], env=environment(), cwd=show).stdout)
    files = '["/dev/null", 0]'
    broken = ["", "{", "[]", "{}", '{"mode": "observe", "pythonpath": null}', files]
    for config in broken:
        env = environment(PYTHONPATH=str(HOOK), RESILIENT_HOOK=config)
        result = run("plain", ["s.py"], env=env, cwd=show)
        assert (result.code, result.stderr) == (0, "")
        assert json.loads(result.stdout)[:3] == expected[:3]


def test_descriptor_of_another_file(show: Path) -> None:
    """A wrapper may have closed ours; the number may be another file's, which is left alone."""
    (show / "s.py").write_text("import os; print(os.fstat(7).st_size >= 0, os.read(8, 3))")
    hook = {"mode": "observe", "fd": 7, "page": 8, "ppid": os.getpid(), "pythonpath": None}
    env = environment(PYTHONPATH=str(HOOK), RESILIENT_HOOK=json.dumps(hook))
    (show / "data").write_text("abc")
    command = f'exec 7<data 8<data; exec "{sys.executable}" s.py'
    done = subprocess.run(
        ["bash", "-c", command], env=env, cwd=show, capture_output=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"True b'abc'\n", b"", 0)


def test_low_limit_on_open_files(show: Path) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))

    options = {"env": environment(), "cwd": show, "preexec": lower}
    plain, result = (run(mode, ["s.py"], **options) for mode in ("plain", "observe"))
    assert result.seen == plain.seen
    assert result.kinds == ["hook", "main_ended"]


def test_agent_that_does_not_listen(tmp_path: Path) -> None:
    """A full or closed channel costs the script at most a second, once."""
    (tmp_path / "s.py").write_text("import os\nos.environ['BIG'] = 'x' * 100_000\nprint(1)\n")
    with Worker("observe", ["s.py"], env=environment(), cwd=tmp_path) as worker:
        worker.channel.shutdown(2)
        result = worker.finish()
    assert result.seen == ("1\n", "", 0)


def test_script_that_closes_all_descriptors(tmp_path: Path) -> None:
    """And then has files of its own under our numbers: nothing of ours is written there."""
    (tmp_path / "s.py").write_text(
        "import os, socket\nos.closerange(3, 1024)\n"
        "ours, theirs = socket.socketpair()\n"
        "for fd in range(30, 300): os.dup2(ours.fileno(), fd)\n"
        "import atexit; theirs.setblocking(False)\n"
        "def last():\n    try: print(theirs.recv(9))\n    except BlockingIOError: print('none')\n"
        "atexit.register(last)\n"
    )
    result = run("observe", ["s.py"], env=environment(), cwd=tmp_path)
    assert (result.stdout, result.kinds) == ("none\n", ["hook"])


def test_dies_with_the_agent(tmp_path: Path) -> None:
    """Killed, even while it ignores every signal it can; not only told."""
    (tmp_path / "s.py").write_text(
        "import os, signal, time\n"
        "for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
        "open('pid', 'w').write(str(os.getpid())); time.sleep(600)\n"
    )
    agent = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from harness import Worker, environment\n"
        "worker = Worker('observe', ['s.py'], env=environment(), cwd='.')\n"
        "worker.wait_for('hook'); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", agent, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path) as process:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "started")
        pid = int((tmp_path / "pid").read_text())
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: not alive(pid), "the worker has died")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_interpreters(show: Path, version: str) -> None:
    """PYTHON_EXEC may be another Python, without `resilient` and older than what we need."""
    beside = Path(sys.base_prefix).parent.glob(f"*{version}*/bin/python{version}")
    python = next(map(str, beside), None) or shutil.which(f"python{version}")
    if (
        python is None
        or subprocess.run([python, "-V"], check=False, capture_output=True).returncode
    ):
        pytest.skip(f"no python{version} here")
    options = {"env": environment(), "cwd": show, "python": [python]}
    plain, result = (run(mode, ["s.py"], **options) for mode in ("plain", "observe"))
    assert result.seen == plain.seen
    assert result.kinds == ([] if version == "3.9" else ["hook", "main_ended"])
    if version != "3.9":
        (show / "s.py").write_text("import sys\nsys.exit(0)")
        expected = ["hook"] + ["main_ended"] * (version != "3.10")  # cannot be known there
        assert run("observe", ["s.py"], **options).kinds == expected
        (show / "s.py").write_text("raise SystemExit(3)")
        assert run("observe", ["s.py"], **options).kinds == ["hook"]
        assert run("observe", ["-m", "s"], **options).kinds == ["hook"]
    else:
        standby = run("standby", ["s.py"], **options)
        assert (standby.stdout, standby.code) == ("", 0)


def test_observation(tmp_path: Path) -> None:
    """Just before torch is executed: not when somebody asks for it, and not afterwards."""
    (tmp_path / "s.py").write_text(
        "import os, sys, importlib.util\n"
        "os.environ['EARLY'] = '1'; del os.environ['GOES']\n"
        "spec = importlib.util.find_spec('torch')\n"
        "import numpy, fsspec\n"
        "os.environ['RANK'] = '5'; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import torch\n"
        "print([type(f).__name__ for f in sys.meta_path].count('Watch'))\n"
        "print(sorted(vars(torch.__loader__)), sorted(vars(spec.loader)))\n"
        "os.environ['LATER'] = '1'\n"
        "import torch._dynamo\n"
        "print([type(f).__name__ for f in sys.meta_path].count('Watch'))\n"
        "os.environ['LAST'] = '1'\n"
    )
    with Worker("observe", ["s.py"], env=environment(GOES="1"), cwd=tmp_path) as worker:
        assert worker.wait_for("hook") == {
            "t": "hook",
            "pid": worker.process.pid,
            "mode": "observe",
        }
        observed = worker.wait_for("observed")
        assert worker.words()[1] == START
        late = worker.wait_for("late")
        assert worker.words()[1] == LOAD
        result = worker.finish()
    assert result.stderr == ""
    assert result.stdout.splitlines()[::2] == ["1", "0"]
    native = observed.pop("native")
    assert native
    assert [path for path in native if "/numpy" not in path and "libstdc++" not in path] == []
    assert observed == {
        "t": "observed",
        "env": {"EARLY": "1", "RANK": "5"},
        "gone": ["GOES"],
        "affinity_changed": (os.cpu_count() or 1) > 1,
        "dlopen_flags_changed": False,
        "roots": ["numpy", "fsspec"],
        "torch_path": str(Path(__import__("torch").__file__).parent),
        "forked": False,
    }
    late["env"].pop("TORCHINDUCTOR_CACHE_DIR", None)
    expected = {"EARLY": "1", "RANK": "5", "LATER": "1"}
    assert late == {"t": "late", "env": expected, "gone": ["GOES"]}
