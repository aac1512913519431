"""Restarts from waiting processes: where they may be, and that a script cannot tell."""

from collections.abc import Callable

import msgspec
import pytest

from agent.ended import Ended
from agent.warm import CASES, COLD, WARM, one, starts


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, several: Callable[..., Callable[[str], Ended]]
) -> Callable[[str], Ended]:
    folder = tmp_path_factory.mktemp("warm")
    return several(lambda name: one(folder / name, name), CASES)


@pytest.mark.parametrize("name", CASES)
def test_comes_back(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    assert ended.code == 0
    assert [incident[0] for incident in ended.incidents] == ["worker_killed"]
    assert len(ended.noted("trains", attempt=1)) == 2
    assert all(line["attempt_number"] == "1" for line in ended.noted("line 1", attempt=1))
    for rank in (0, 1):
        assert f"trains: {rank} of 2 in 1" in ended.out
        assert f"trains: {rank} of 2 in 1" in ended.logs[f"attempt-1/{rank}/stdout.log"]


@pytest.mark.parametrize("name", WARM)
def test_warm(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    assert [event["warm"] for event in starts(ended, 0).values()] == [False, False]
    assert [event["warm"] for event in starts(ended, 1).values()] == [True, True]
    incident = ended.run.incidents[0]
    assert incident.warm_ranks == (0, 1)
    assert "came back warm" in ended.report


def test_the_phases_of_an_incident(runs: Callable[[str], Ended]) -> None:
    phases = runs("usual").run.incidents[0].phases
    seconds = msgspec.structs.astuple(phases)
    assert None not in seconds, phases
    assert list(seconds) == sorted(seconds)


@pytest.mark.parametrize("name", WARM)
def test_the_script_sees_no_difference(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    for rank in (0, 1):
        cold, warm = (ended.noted("line 1", rank=rank, attempt=n)[0] for n in (0, 1))
        for what in ("torch", "argv", "flags", "hook", "path", "main", "mine"):
            assert warm[what] == cold[what], what
        assert not warm["torch"]
        assert not warm["hook"]
        cold, warm = (ended.noted("trains", rank=rank, attempt=n)[0] for n in (0, 1))
        assert warm["environ"] == cold["environ"]
        assert warm["threads"] == cold["threads"]
    assert len({line["seed"] for line in ended.noted("trains")}) == 4
    assert len(ended.noted("line 1")) == 4


def test_a_sitecustomize_of_the_users_own_runs_once(runs: Callable[[str], Ended]) -> None:
    ended = runs("own sitecustomize")
    assert [line["mine"] for line in ended.noted("line 1")] == [1] * 4


def test_the_environment_before_torch_is_replayed(runs: Callable[[str], Ended]) -> None:
    assert [line["threads"] for line in runs("same environment").noted("trains")] == [2] * 4


def test_another_environment_starts_over(runs: Callable[[str], Ended]) -> None:
    """The lines before `import torch` then run twice; and no more standbys are made."""
    ended = runs("other environment")
    assert [line["threads"] for line in ended.noted("trains", attempt=1)] == [2, 2]
    assert len(ended.noted("line 1", attempt=1)) == 4
    assert ended.events("worker.cold")
    assert ended.run.incidents[0].warm_ranks == ()
    assert "OMP_NUM_THREADS" in ended.run.incidents[0].cold_why


@pytest.mark.parametrize("name", COLD)
def test_cold_where_it_has_to_be(runs: Callable[[str], Ended], name: str) -> None:
    ended = runs(name)
    assert not ended.events("standby.start")
    assert len(ended.noted("line 1")) == 4
    assert all(event["why_cold"] for event in starts(ended, 1).values())


def test_why_it_is_cold_is_said(runs: Callable[[str], Ended]) -> None:
    why = {name: starts(runs(name), 1)[0]["why_cold"] for name in COLD}
    assert "RESILIENT_WARM_START" in why["off"]
    assert "did not report" in why["isolated"]
