import pytest
from diagnose.samples import START, end, evidence

from resilient.decide.place import place_of
from resilient.decide.progress import absolute_step, advanced, did_something, stalled
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import Budget, PastAttempt
from resilient.model.evidence import Phase, WorkerEnd


def past(
    furthest: int | None, moved: bool, phase: str = "load", budget: Budget = Budget.PROGRAM
) -> PastAttempt:
    return PastAttempt(
        attempt=0,
        ended_at=START,
        diagnosis=diagnose(evidence(end(0, 3))),
        budget=budget,
        phase=phase,
        furthest_step=furthest,
        made_progress=moved,
    )


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([], []),
        ([past(10, True), past(9, True), past(10, True), past(11, True)], [1, 0, 0, 1]),
        ([past(None, True, "step 5"), past(None, True, "step 5")], [1, 1]),  # numbers not absolute
        ([past(None, True), past(None, False), past(None, True)], [1, 0, 1]),  # no steps at all
        ([past(10, True), past(None, True), past(11, True)], [1, 0, 1]),  # lasted without a step
    ],
)
def test_advanced(attempts: list[PastAttempt], expected: list[int]) -> None:
    assert advanced(attempts) == [bool(moved) for moved in expected]


def test_stalled_counts_what_is_charged() -> None:
    ours = past(None, False, budget=Budget.UNCHARGED)
    assert stalled([]) == 0
    assert stalled([past(5, True), past(5, True), ours, past(4, True), ours]) == 2
    assert stalled([past(5, True), ours, ours]) == 0


def test_progress_of_one_attempt() -> None:
    start = end(0, 3, 5.0, phase=Phase.START, step=None)
    assert not did_something(evidence(start))
    assert did_something(evidence(end(0, 3, 61.0, phase=Phase.START, step=None)))
    assert did_something(evidence(end(0, 3, 5.0, step=1)))
    assert did_something(evidence(start, furthest_step=3, first_step=2))
    assert absolute_step(evidence(start, furthest_step=3, first_step=2)) == 3
    assert absolute_step(evidence(start, furthest_step=3)) is None


@pytest.mark.parametrize(
    ("ends", "place"),
    [
        ((), "start"),
        ((end(1, -9, step=12), end(0, 1, step=11, output="gloo_closed_by_peer")), "step 12"),
        ((end(0, 1, step=11, output="gloo_closed_by_peer"),), "step 11"),
        ((end(0, 1, phase=Phase.TEARDOWN, step=9),), "teardown"),
        ((end(0, 1, phase=Phase.LOAD, step=None),), "load"),
        ((end(0, 1, phase=Phase.STEP, step=None),), "load"),
        ((end(0, -15, step=3, sent="SIGTERM"),), "start"),
    ],
)
def test_place(ends: tuple[WorkerEnd, ...], place: str) -> None:
    seen = evidence(*ends)
    assert place_of(seen, diagnose(seen)) == place
