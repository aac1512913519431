"""Every combination: a worker sees the same under resilient-run as under torchrun."""

import pytest

from differential.case import Case
from differential.compare import compare, not_as_warm
from differential.conftest import Runs, note
from differential.matrix import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same(case: Case, runs: Runs) -> None:
    theirs, ours = runs.get(case)
    attempts = {attempt for attempt, _ in theirs.probes}
    assert attempts == set(range(case.attempts)), f"torchrun ran attempts {attempts}: {theirs}"
    found = compare(case, theirs, ours)
    cold_why = not_as_warm(case, ours) if case.again else ""
    note(case, found, cold_why)
    bad = [d for d in found if not d.reason]
    assert not bad, f"{len(bad)} differences\n" + "\n".join(map(str, bad[:12]))
    assert not cold_why
