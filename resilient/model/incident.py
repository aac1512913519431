"""An incident: from the first sign of trouble to training again, or to giving up."""

from enum import Enum

import msgspec

from resilient.model.diagnosis import EvidenceLine


class IncidentState(Enum):
    """Where an incident stands; stage D adds `failing over` between open and restarting."""

    OPEN = "open"
    RESTARTING = "restarting"
    CLOSED = "closed"


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds since the fault was noticed (since the fault itself, where its time is known)."""

    noticed_s: float | None = None
    stopped_s: float | None = None  # every process of the attempt confirmed dead
    rendezvous_s: float | None = None
    spawned_s: float | None = None  # last worker of the next attempt started or told to go
    first_collective_s: float | None = None  # last rank to issue its first collective
    first_step_s: float | None = None  # last rank to finish its first optimizer step


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """incidents/NNNN/incident.json."""

    schema: int = 1
    number: int
    attempt: int
    at: float  # seconds since the epoch when it was noticed
    class_: str = msgspec.field(name="class")
    first_rank: int | None
    host: str
    sentence: str
    action: str  # "restart" or "stop"
    reason: str
    state: IncidentState
    exit_code: int | None = None  # of the first failing rank, as subprocess reports it
    confidence: float
    steps_lost: int | None = None
    resumed_step: int | None = None  # step of the first optimizer step after the restart
    warm_ranks: tuple[int, ...] = ()  # ranks that came back from a standby
    cold_why: str = ""  # why the others did not
    victims: tuple[int, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
    tail: tuple[str, ...] = ()  # last lines of the first failing rank
    log: str = ""  # path of its log, relative to the run directory where it lies inside
    phases: Phases = Phases()
