"""Programs that fail: same exit code, same error files, same traceback, cold and after a restart.

A failure that would only repeat itself is the one place where the exit code is meant to differ:
78 asks a scheduler not to start the job again, where torchrun has 1 for everything.
"""

from dataclasses import replace

import pytest

from differential.case import STANDALONE, Case
from differential.compare import compare, not_as_warm
from differential.conftest import Runs, note
from differential.execute import Result
from differential.matrix import LOGS
from differential.speech import TORCH_LOG, spoken

WAYS = (
    "exit:3",
    "text",
    "raise",
    "record",
    "signal:SIGKILL",
    "signal:SIGTERM",
    "segfault",
    "_exit:9",
    "interrupt",
)
# A rank killed from outside is not the program's failure: it comes back without --max-restarts.
NO_RETURN = {"RESILIENT_INFRA_RESTARTS_PER_HOUR": "0"}
COLD = tuple(
    Case(f"cold, {way}", LOGS, env=NO_RETURN, do=f"end={way}", again=False) for way in WAYS
)
AGAIN = tuple(
    Case(f"after a restart, {way}", (*STANDALONE, "-r", "2", *LOGS), do=f"end={way}")
    for way in ("exit:3", "raise", "record", "signal:SIGKILL", "interrupt")
)
REPLY = Case(
    "the launcher's own error file",
    LOGS,
    env={"TORCHELASTIC_ERROR_FILE": "{d}/work/reply.json"},
    do="end=record",
    again=False,
)
DO_NOT_REQUEUE = 78
ONCE_MORE = "one more attempt, cold, to rule out that coming from a standby was the cause"


def same(case: Case, runs: Runs) -> tuple[Result, Result]:
    theirs, ours = runs.get(case)
    found = compare(case, theirs, ours)
    if ours.exit_code == DO_NOT_REQUEUE and theirs.exit_code == 1:
        found = [d for d in found if d.where != "exit code"]
    found = [replace(d, reason=ONCE_MORE) if d.attempt == 2 else d for d in found]
    note(case, found, ours)
    bad = [d for d in found if not d.reason]
    assert not bad, "\n".join(map(str, bad))
    assert not not_as_warm(case, ours)
    assert theirs.exit_code == 1
    return theirs, ours


def last_words(result: Result) -> list[str]:
    """What the worker left on the error stream, up to where the launcher speaks."""
    words = []
    for line in spoken(result.stderr, result)[1]:
        if TORCH_LOG.match(line):
            break
        words.append(line)
    return words


@pytest.mark.parametrize("case", COLD, ids=lambda case: case.name)
def test_fails_the_same(case: Case, runs: Runs) -> None:
    theirs, ours = same(case, runs)
    words = last_words(theirs)
    lines = spoken(ours.stderr, ours)[1]
    assert any(lines[i : i + len(words)] == words for i in range(len(lines) + 1)), lines


@pytest.mark.parametrize("case", AGAIN, ids=lambda case: case.name)
def test_fails_the_same_after_a_restart(case: Case, runs: Runs) -> None:
    theirs, _ = same(case, runs)
    assert {attempt for attempt, _ in theirs.probes} == {0, 1}


@pytest.mark.parametrize("case", [REPLY], ids=lambda case: case.name)
def test_error_file_of_the_launcher(case: Case, runs: Runs) -> None:
    theirs, _ = same(case, runs)
    assert "work/reply.json" in theirs.files
