"""decide.stop: the ladder as a table, and what holds for every combination."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.decide.stop import Action, Facts, Graces, Sent, Step, next_step

GRACES = Graces(stop_s=30.0, fault_s=1.0)
HANDLER = Facts(catches_term=True)
BEFORE = Sent(began_at=0.0)


@pytest.mark.parametrize(
    ("why", "now", "facts", "sent", "expected"),
    [
        # after a fault
        ("fault", 0.0, Facts(), BEFORE, Step(Action.TERM)),
        ("fault", 0.0, HANDLER, BEFORE, Step(Action.RELEASE)),
        ("fault", 0.0, HANDLER, Sent(began_at=0.0, released_at=0.0), Step(Action.TERM)),
        ("fault", 0.5, HANDLER, Sent(began_at=0.0, term_at=0.0), Step(Action.WAIT, 1.0)),
        ("fault", 1.0, HANDLER, Sent(began_at=0.0, term_at=0.0), Step(Action.KILL)),
        ("fault", 1.0, HANDLER, Sent(began_at=0.0, term_at=0.0, kill_at=1.0), Step(Action.WAIT)),
        ("fault", 0.0, Facts(stopped=True, saving=True), BEFORE, Step(Action.KILL)),
        ("fault", 0.0, Facts(saving=True), BEFORE, Step(Action.WAIT, 30.0)),
        ("fault", 30.0, Facts(saving=True), BEFORE, Step(Action.TERM)),
        # a handler that saves keeps the long grace
        ("fault", 5.0, Facts(saving=True), Sent(began_at=0, term_at=0.0), Step(Action.WAIT, 30.0)),
        ("fault", 30.0, Facts(saving=True), Sent(began_at=0, term_at=0.0), Step(Action.KILL)),
        # from outside
        ("outside", 0.0, HANDLER, BEFORE, Step(Action.TERM)),
        ("outside", 0.0, Facts(stopped=True), BEFORE, Step(Action.TERM)),
        ("outside", 29.0, HANDLER, Sent(began_at=0.0, term_at=0.0), Step(Action.WAIT, 30.0)),
        ("outside", 30.0, HANDLER, Sent(began_at=0.0, term_at=0.0), Step(Action.KILL)),
        # the dead need nothing
        ("fault", 0.0, Facts(alive=False, stopped=True), BEFORE, Step(Action.WAIT, inf)),
    ],
)
def test_the_table(why, now, facts, sent, expected):
    assert next_step(now, facts, sent, why=why, graces=GRACES) == expected


seconds = st.floats(0.0, 100.0)


@given(
    why=st.sampled_from(["outside", "fault"]),
    facts=st.lists(
        st.builds(Facts, stopped=st.booleans(), catches_term=st.booleans(), saving=st.booleans()),
        min_size=1,
    ),
    graces=st.builds(Graces, stop_s=seconds, fault_s=seconds),
)
def test_every_ladder_ends_with_a_kill_in_time_and_never_repeats_a_step(why, facts, graces):
    """Whatever the worker looks like from one look to the next, as long as it does not die."""
    now, sent, done, look = 0.0, BEFORE, [], 0
    while sent.kill_at is None:
        step = next_step(now, facts[look % len(facts)], sent, why=why, graces=graces)
        look += 1
        if step.action is Action.WAIT:
            assert now < step.until < inf
            now = min(step.until, now + 5.0)
            continue
        assert step.action not in done
        done.append(step.action)
        field = {Action.RELEASE: "released_at", Action.TERM: "term_at", Action.KILL: "kill_at"}
        sent = Sent(
            **{name: getattr(sent, name) for name in Sent.__struct_fields__}
            | {field[step.action]: now}
        )
    assert now <= graces.stop_s + max(graces.stop_s, graces.fault_s) + 5.0
    assert done[-1] is Action.KILL
    assert next_step(now, facts[0], sent, why=why, graces=graces) == Step(Action.WAIT, inf)
