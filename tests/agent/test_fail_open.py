"""A bug of ours is said, and the job goes on as it would under torchrun: it comes back."""

from collections.abc import Callable

import pytest

from agent.breaking import broken
from agent.starting import Batch

RESTARTS = """
from note import ATTEMPT, RANK, note, wait_for
import sys, time
print(f"attempt {ATTEMPT} of rank {RANK}", flush=True)
note("start")
if ATTEMPT == 0:
    wait_for("start", 2)
    time.sleep(0.3)
    if RANK == 1:
        raise ValueError("once")
    time.sleep(60)
note("done")
"""
# what is broken, and what is then said
BUGS = {
    "judge": "judging a failure",
    "diagnose": "judging a failure",
    "gather": "internal error",
    "Attempt.watch": "watching the workers",
    "Attempt._outcome": "watching the workers",
    "Endings.add": "internal error",
    "Standbys.keep": "keeping standbys",
    "Standbys.take": "waking a standby",
    "Incidents.begin": "internal error",
    "Event": "writing a record",
    "Scribe.record": "writing a record",
    "Scribe.start": "a bug of ours",
    "Scribe.close": "internal error",
    "Outlets.open_run": "internal error",
    "mask": "internal error",
    "stop_workers": "internal error",
    "sweep": "internal error",
    "fresh_store": "internal error",
    "render": "internal error",
}


@pytest.fixture(scope="module")
def batch(new_batch: Callable[[], Batch], tmp_path_factory: pytest.TempPathFactory) -> Batch:
    runs = new_batch()
    for name in BUGS:
        env = broken(tmp_path_factory.mktemp("site"), name)
        runs.add(name, RESTARTS, "--max-restarts=1", env=env, explained=False)
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_bug_of_ours_changes_nothing(batch: Batch, name: str) -> None:
    ended = batch[name]
    assert ended.code == 0, ended.err
    assert len(ended.noted("start", attempt=0)) == len(ended.noted("done", attempt=1)) == 2
    for rank in (0, 1):
        assert f"attempt 1 of rank {rank}" in ended.out
    assert BUGS[name] in ended.err
