"""One incident at a time: from the first sign of trouble to training again, or to giving up.

             RESTART                 TRAINING, ENDED
      OPEN ───────────► RESTARTING ──────────────────► CLOSED
     FAULT│ ▲               │ FAULT                      ▲ ▲
          └─┘               └────────────────────────────┘ │   (and the next incident opens)
      OPEN ────────────────────────────────────────────────┘
                              STOP

Whatever acts on a failure (hang kill, restart, later failover and save-now) does so only with
the action that its event returned, so that exactly one acts.
"""

from collections.abc import Callable
from enum import Enum

from resilient.model.errors import Bug
from resilient.model.incident import IncidentState


class IncidentEvent(Enum):
    """What can happen to an incident."""

    FAULT = "fault"  # another worker failed, or was found stopped
    RESTART = "restart"  # decided
    STOP = "stop"  # decided
    TRAINING = "training"  # the next attempt does optimizer steps, or was watched long enough
    ENDED = "ended"  # the next attempt ended with success before that was seen


class IncidentAction(Enum):
    """What whoever fed the event has to do."""

    START_ATTEMPT = "start_attempt"
    END_RUN = "end_run"
    WRITE = "write"  # the record is complete
    OPEN_NEXT = "open_next"  # a new incident, with its own number


Result = tuple[IncidentState, tuple[IncidentAction, ...]]


def step(state: IncidentState, event: IncidentEvent) -> Result:
    """The next state, and what to do. Raises Bug for an event that cannot come in that state."""
    handler = _TABLE.get((state, event))
    if handler is None:
        raise Bug(f"an incident that is {state.value} cannot take the event {event.value}")
    return handler()


def _more_evidence() -> Result:
    return IncidentState.OPEN, ()


def _restart() -> Result:
    return IncidentState.RESTARTING, (IncidentAction.START_ATTEMPT,)


def _stop() -> Result:
    return IncidentState.CLOSED, (IncidentAction.WRITE, IncidentAction.END_RUN)


def _back() -> Result:
    return IncidentState.CLOSED, (IncidentAction.WRITE,)


def _failed_again() -> Result:
    return IncidentState.CLOSED, (IncidentAction.WRITE, IncidentAction.OPEN_NEXT)


_TABLE: dict[tuple[IncidentState, IncidentEvent], Callable[[], Result]] = {
    (IncidentState.OPEN, IncidentEvent.FAULT): _more_evidence,
    (IncidentState.OPEN, IncidentEvent.RESTART): _restart,
    (IncidentState.OPEN, IncidentEvent.STOP): _stop,
    (IncidentState.RESTARTING, IncidentEvent.TRAINING): _back,
    (IncidentState.RESTARTING, IncidentEvent.ENDED): _back,
    (IncidentState.RESTARTING, IncidentEvent.FAULT): _failed_again,
}
