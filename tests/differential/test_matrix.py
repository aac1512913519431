"""Every combination: a worker sees the same under resilient-run as under torchrun."""

import pytest

from differential.case import Case
from differential.compare import compare, not_as_warm
from differential.conftest import Runs, note
from differential.execute import Result
from differential.matrix import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same(case: Case, runs: Runs) -> None:
    theirs, ours = runs.get(case)
    attempts = {attempt for attempt, _ in theirs.probes}
    assert attempts == set(range(case.attempts)), f"torchrun ran attempts {attempts}: {theirs}"
    found = compare(case, theirs, ours)
    note(case, found, ours)
    bad = [d for d in found if not d.reason]
    assert not bad, f"{len(bad)} differences\n" + "\n".join(map(str, bad[:12]))
    assert not not_as_warm(case, ours)
    assert not same_dice(ours)


def same_dice(ours: Result) -> list[tuple[float, ...]]:
    """Workers that drew the same numbers, which no two of them may, of any rank and attempt."""
    seeds = [tuple(p["seeds"][:1]) for p in ours.probes.values() if "seeds" in p]
    seeds += [(p["torch"]["seed"],) for p in ours.probes.values() if "torch" in p]
    return sorted(s for s in seeds if seeds.count(s) > 1)
