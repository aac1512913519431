"""Called from a user's own program, where nothing may be touched but what is ours."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.ended import Ended
from agent.jobs import Job
from agent.library import PROGRAM, WHATS, WORKER
from agent.starting import BIN, killed_at_last, write

FAILS = [name for name in WHATS if "fails" in name]


@pytest.fixture(scope="module")
def programs(
    tmp_path_factory: pytest.TempPathFactory, several: Callable[..., Callable[[str], Ended]]
) -> Callable[[str], Ended]:
    base = tmp_path_factory.mktemp("programs")

    def one(name: str) -> Ended:
        folder = base / name
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
