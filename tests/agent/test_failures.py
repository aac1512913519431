"""What a failing worker leads to: exit code, number of attempts, and who is named."""

from collections.abc import Callable

import pytest

from agent.starting import Batch

# rank 1 fails while rank 0 has something to do
BOTH = """
from note import ATTEMPT, RANK, note, wait_for
import os, sys, time
print(f"rank {RANK}, attempt {ATTEMPT}", flush=True)
if RANK == 0:
    time.sleep(60)
"""
SCRIPTS = {
    "exception": (
        "",
        BOTH + "def deep():\n    raise ValueError('the batch was bad')\ndeep()",
    ),
    "one long line": ("", BOTH + "raise ValueError('A' * 100_000)"),
    "two kinds": (
        "--max-restarts=1",
        BOTH + "raise [ValueError('one thing'), KeyError('another')][ATTEMPT]",
    ),
    "two kinds, then success": (
        "--max-restarts=2",
        "from note import *\nif RANK and ATTEMPT < 2: raise [ValueError, KeyError][ATTEMPT]('x')",
    ),
    "the same twice": (
        "--max-restarts=5",
        BOTH + "raise ValueError(f'failed in process {os.getpid()} at 0x{id(os):x}')",
    ),
    "import": ("--max-restarts=3", "import no_such_module_anywhere"),
    "syntax": ("--max-restarts=3", "def broken(:\n    pass"),
    "usage": (
        "--max-restarts=3",
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--epochs', required=True)\nparser.parse_args()",
    ),
    "exit 3": ("--max-restarts=1", BOTH + "sys.exit(3)"),
    "exit 3 after success of the other": (
        "",
        BOTH.replace("time.sleep(60)", "note('done'); sys.exit()")
        + "wait_for('done'); time.sleep(0.2); sys.exit(3)",
    ),
    "record": (
        "",
        BOTH + "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main():\n    raise RuntimeError('recorded')\nmain()",
    ),
}


@pytest.fixture(scope="module")
def batch(new_batch: Callable[[], Batch]) -> Batch:
    runs = new_batch()
    for name, (flags, text) in SCRIPTS.items():
        runs.add(name, text, flags)
    runs.add(
        "vanishing", "import os; os.remove(__file__); os._exit(9)", "--max-restarts=2", nproc=1
    )
    return runs


def test_the_first_failing_rank_is_quoted_last(batch: Batch) -> None:
    """T37."""
    ended = batch["exception"]
    assert ended.code == 1
    assert ended.attempts == 1
    assert ended.incidents == [("user_error", 1, "stop")]
    assert "in deep" in ended.report
    assert "ValueError: the batch was bad" in ended.report
    assert "ValueError: the batch was bad" in ended.err.rpartition("| Traceback")[2]
    assert ended.logs["attempt-0/1/stdout.log"] == "rank 1, attempt 0\n"
    assert "ValueError" in ended.logs["attempt-0/1/stderr.log"]


def test_a_long_message_does_not_hide_the_exception(batch: Batch) -> None:
    ended = batch["one long line"]
    assert ended.incidents == [("user_error", 1, "stop")]
    assert "raised ValueError" in ended.report
    assert "no traceback" not in ended.report


def test_different_exceptions_use_up_max_restarts(batch: Batch) -> None:
    ended = batch["two kinds"]
    assert ended.code == 1
    assert ended.attempts == 2
    assert ended.incidents == [("user_error", 1, "restart"), ("user_error", 1, "stop")]
    assert "one thing" in ended.logs["attempt-0/1/stderr.log"]
    assert "another" in ended.logs["attempt-1/1/stderr.log"]
    assert "another" in ended.err.rpartition("| Traceback")[2]


def test_different_exceptions_and_then_success(batch: Batch) -> None:
    ended = batch["two kinds, then success"]
    assert ended.code == 0
    assert ended.attempts == 3
    assert "FINISHED after 2 incidents, exit code 0" in ended.err
    assert {"attempt-0/1/stderr.log", "attempt-1/1/stderr.log"} <= set(ended.logs)


def test_the_same_exception_twice_is_not_tried_again(batch: Batch) -> None:
    ended = batch["the same twice"]
    assert ended.code == 78
    assert ended.attempts == 2
    assert ended.incidents[-1] == ("user_error", 1, "stop")
    assert "Do not requeue" in ended.err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("import", "No module named 'no_such_module_anywhere'"),
        ("syntax", "invalid syntax"),
        ("usage", "the following arguments are required: --epochs"),
    ],
)
def test_hopeless_errors_are_not_tried_again(batch: Batch, name: str, said: str) -> None:
    """T32."""
    ended = batch[name]
    assert ended.code == 78
    assert ended.attempts == 1
    assert ended.incidents[0][0] == "user_error"
    assert said in ended.report


def test_a_script_that_has_vanished_is_tried_once_more(batch: Batch) -> None:
    """The first attempt had got past that point, so it may have been a passing trouble."""
    ended = batch["vanishing"]
    assert ended.code == 78
    assert ended.attempts == 3


def test_a_code_of_its_own_uses_up_max_restarts(batch: Batch) -> None:
    """torchrun exits with 1 whatever the worker's code was."""
    ended = batch["exit 3"]
    assert ended.code == 1
    assert ended.attempts == 2
    assert "exitcode  : 3" in ended.err


def test_success_of_others_does_not_hide_a_failure(batch: Batch) -> None:
    ended = batch["exit 3 after success of the other"]
    assert ended.code == 1
    assert ended.incidents == [("user_error", 1, "stop")]


def test_error_files_are_read_and_kept(batch: Batch) -> None:
    ended = batch["record"]
    assert ended.code == 1
    assert list(ended.run.path.glob("nodes/*/attempt-0/1/error.json"))
    assert "RuntimeError: recorded" in ended.err.partition("Root Cause")[2]


@pytest.mark.parametrize("name", ["exception", "two kinds", "the same twice", "exit 3"])
def test_a_rank_that_we_stopped_is_never_named(batch: Batch, name: str) -> None:
    """Rank 0 ran when rank 1 failed, and got our SIGTERM."""
    ended = batch[name]
    stopped = [event for event in ended.events("worker.exit") if event["sent"]]
    assert {event["rank"] for event in stopped} == {0}
    summary = ended.err.partition("ChildFailedError")[2]
    assert "rank      : 1" in summary
    assert "rank      : 0" not in summary
    assert not any(str(event["pid"]) in summary for event in stopped)
    assert "Rank 0" not in summary
