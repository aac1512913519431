"""Signals to the launcher reach the workers, and end the run with torchrun's exit code."""

import pytest

from differential.case import STANDALONE, Case
from differential.compare import compare
from differential.conftest import Runs, note

CASES = (
    Case("SIGTERM", do="end=wait", again=False, signals=("SIGTERM",)),
    Case("SIGINT", do="end=wait", again=False, signals=("SIGINT",)),
    Case("SIGHUP on a terminal", do="end=wait", again=False, signals=("SIGHUP",), terminal="pty"),
    Case(
        "SIGUSR1",
        (*STANDALONE, "--signals-to-handle", "SIGTERM,SIGUSR1"),
        do="end=wait",
        again=False,
        signals=("SIGUSR1",),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_signal(case: Case, runs: Runs) -> None:
    theirs, ours = runs.get(case)
    found = compare(case, theirs, ours)
    note(case, found, ours)
    bad = [d for d in found if not d.reason]
    assert not bad, "\n".join(map(str, bad))
