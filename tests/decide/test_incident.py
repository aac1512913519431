import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.decide.incident import IncidentAction, IncidentEvent, step
from resilient.model.errors import Bug
from resilient.model.incident import IncidentState


def test_a_restart_and_a_stop() -> None:
    state, actions = step(IncidentState.OPEN, IncidentEvent.RESTART)
    assert (state, actions) == (IncidentState.RESTARTING, (IncidentAction.START_ATTEMPT,))
    state, actions = step(state, IncidentEvent.TRAINING)
    assert (state, actions) == (IncidentState.CLOSED, (IncidentAction.WRITE,))
    state, actions = step(IncidentState.OPEN, IncidentEvent.STOP)
    assert (state, IncidentAction.END_RUN in actions) == (IncidentState.CLOSED, True)
    state, actions = step(IncidentState.RESTARTING, IncidentEvent.FAULT)
    assert (state, IncidentAction.OPEN_NEXT in actions) == (IncidentState.CLOSED, True)


@pytest.mark.parametrize("event", IncidentEvent)
def test_closed_is_closed(event: IncidentEvent) -> None:
    with pytest.raises(Bug, match=f"closed cannot take the event {event.value}"):
        step(IncidentState.CLOSED, event)


@given(st.lists(st.sampled_from(IncidentEvent), max_size=12))
def test_exactly_one_acts(events: list[IncidentEvent]) -> None:
    """However events come, an incident acts once for its decision and once for its end."""
    state = IncidentState.OPEN
    done: list[IncidentAction] = []
    for event in events:
        try:
            state, actions = step(state, event)
        except Bug:
            continue
        done += actions
    assert done.count(IncidentAction.START_ATTEMPT) + done.count(IncidentAction.END_RUN) <= 1
    assert done.count(IncidentAction.WRITE) == (state is IncidentState.CLOSED)


def test_every_pair_has_a_handler_or_an_error_that_names_both() -> None:
    for state, event in itertools.product(IncidentState, IncidentEvent):
        try:
            following, actions = step(state, event)
        except Bug as error:
            assert state.value in str(error)
            assert event.value in str(error)
        else:
            assert isinstance(following, IncidentState)
            assert set(actions) <= set(IncidentAction)
