"""Called from a user's own program, where nothing may be touched but what is ours."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.ended import Ended
from agent.jobs import Job
from agent.starting import BIN, killed_at_last, write

# A program with a child, handlers and descriptors of its own. WHAT is done in the middle.
PROGRAM = """
import ctypes, gc, os, signal, subprocess, sys, threading, warnings
from pathlib import Path
from note import HERE, note

WORKER = os.path.join(HERE, "worker.py")


def double(rank, factor):
    return int(os.environ["RANK"]) * factor + rank


def fail(*_):
    if os.environ["RANK"] == "1":
        raise ValueError("a function failed")
    import time
    time.sleep(60)


def config(**more):
    from torch.distributed.launcher.api import LaunchConfig
    settings = dict(min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="mine", monitor_interval=0.1,
                    rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=0)
    return LaunchConfig(**{**settings, **more})


def subreaper():
    flag = ctypes.c_int()
    ctypes.CDLL(None).prctl(37, ctypes.byref(flag), 0, 0, 0)
    return flag.value


def set_subreaper(on):
    ctypes.CDLL(None).prctl(36, on, 0, 0, 0)


def state():
    gc.collect()
    handlers = {int(number): str(signal.getsignal(number)) for number in
                (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)}
    fds = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            fds.append(os.readlink(f"/proc/self/fd/{fd}").partition(":[")[0])
        except OSError:
            pass
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {"subreaper": subreaper(), "handlers": handlers, "fds": sorted(fds),
            "children": children,
            "variables": sorted(k for k in os.environ if k.startswith(("RESILIENT", "TORCHEL")))}


def mine(number, frame):
    pass


def main():
    import resilient
    import torch.distributed.run
    child = subprocess.Popen(["sleep", "600"])
    signal.signal(signal.SIGTERM, mine)
    once(resilient)  # what is loaded on first use, is
    before = state()
    once(resilient)
    after = state()
    child.poll()
    note("state", before=before, after=after, child=child.returncode)
    child.kill()
    child.wait()


def once(resilient):
WHAT


if __name__ == "__main__":
    main()
"""
WORKER = """
import os, sys
from note import ATTEMPT, note
note("worker", argv=sys.argv[1:])
if "fail" in sys.argv and os.environ["RANK"] == "1":
    raise ValueError("a command failed")
if "once" in sys.argv and os.environ["RANK"] == "1" and ATTEMPT == 0:
    os.kill(os.getpid(), 9)
"""
WHATS = {
    "command comes back": """
    resilient.elastic_launch(config(), sys.executable)(WORKER, "once")
    """,
    "command fails": """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    try:
        resilient.elastic_launch(config(), sys.executable)(WORKER, "fail")
    except ChildFailedError as error:
        note("error", first=error.get_first_failure()[0], text=str(error))
    """,
    "function": """
    value = resilient.elastic_launch(config(), double)(5, 10)
    note("value", value=value)
    """,
    "function fails": """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    try:
        resilient.elastic_launch(config(), fail)()
    except ChildFailedError as error:
        note("error", first=error.get_first_failure()[0], text=str(error))
    """,
    "main": """
    resilient.main(["--standalone", "--nproc-per-node=2", WORKER, "b"])
    """,
    "subreaper": """
    set_subreaper(1)
    resilient.elastic_launch(config(), sys.executable)(WORKER, "a")
    note("flag", flag=subreaper())
    set_subreaper(0)
    """,
    "thread": """
    found = []
    def run():
        found.append(resilient.elastic_launch(config(), sys.executable)(WORKER, "c"))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    note("value", value=found[0])
    """,
    "misuse": """
    os.environ["RESILIENT_WORM_START"] = "off"
    try:
        resilient.elastic_launch(config(), sys.executable)(WORKER, "a")
    except resilient.model.errors.Misuse as error:
        note("error", first=0, text=str(error))
    finally:
        del os.environ["RESILIENT_WORM_START"]
    """,
}
FAILS = [name for name in WHATS if "fails" in name]


@pytest.fixture(scope="module")
def programs(
    tmp_path_factory: pytest.TempPathFactory, several: Callable[..., Callable[[str], Ended]]
) -> Callable[[str], Ended]:
    def one(name: str) -> Ended:
        folder = tmp_path_factory.mktemp("program")
        write(folder, WORKER, "worker.py")
        what = "\n".join(line for line in WHATS[name].splitlines() if line.strip())
        program = write(folder, PROGRAM.replace("WHAT\n", what + "\n"), "program.py")
        env = {"RESILIENT_RUN_DIR": str(folder / "run")}
        with killed_at_last(Job(folder, [BIN / "python", program], env, grace_s=5)) as job:
            return job.end(clean=False)

    return several(one, WHATS)


@pytest.mark.parametrize("name", WHATS)
def test_the_program_is_as_it_was(programs: Callable[[str], Ended], name: str) -> None:
    ended = programs(name)
    assert ended.code == 0, ended.err
    state = ended.noted("state")[0]
    assert state["child"] is None, "its own child was killed"
    assert state["after"] == state["before"]
    assert state["after"]["subreaper"] == 0
    assert not ended.left


@pytest.mark.parametrize("name", ["main", "thread", "command comes back"])
def test_commands(programs: Callable[[str], Ended], name: str) -> None:
    ended = programs(name)
    workers = ended.noted("worker", attempt=ended.attempts - 1)
    assert len(workers) == 4  # each program runs it twice
    assert all(line["value"] == {"0": None, "1": None} for line in ended.noted("value"))


def test_functions_return_their_values(programs: Callable[[str], Ended]) -> None:
    ended = programs("function")
    assert [line["value"] for line in ended.noted("value")] == [{"0": 5, "1": 15}] * 2


@pytest.mark.parametrize("name", FAILS)
def test_failures_raise(programs: Callable[[str], Ended], name: str) -> None:
    ended = programs(name)
    assert ended.incidents == [("user_error", 1, "stop")]
    errors = ended.noted("error")
    assert [error["first"] for error in errors] == [1, 1]
    assert not any("rank      : 0" in error["text"] for error in errors)
    if "function" in name:
        assert "a function failed" in errors[0]["text"]


def test_a_thread_is_warned(programs: Callable[[str], Ended]) -> None:
    """Signals can only be handled on the main thread: torch warns, and so do we."""
    ended = programs("thread")
    assert "thread" in ended.err
    assert any("thread" in reason for reason in ended.run.run.off)


def test_a_subreaper_stays_one(programs: Callable[[str], Ended]) -> None:
    assert [line["flag"] for line in programs("subreaper").noted("flag")] == [1, 1]


def test_mistakes_in_variables_raise(programs: Callable[[str], Ended]) -> None:
    ended = programs("misuse")
    assert "RESILIENT_WARM_START" in ended.noted("error")[0]["text"]


def test_no_report_is_printed(programs: Callable[[str], Ended]) -> None:
    assert "resilient-run: F" not in programs("command comes back").err


def test_importing_it_is_cheap(tmp_path: Path) -> None:
    program = write(tmp_path, "import sys, resilient\nassert 'torch' not in sys.modules")
    with killed_at_last(Job(tmp_path, [BIN / "python", program])) as job:
        assert job.end().code == 0
