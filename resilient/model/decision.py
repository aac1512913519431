"""What is to be done, and why."""

from enum import Enum

import msgspec

from resilient.model.diagnosis import Diagnosis
from resilient.model.evidence import AttemptEvidence


class Action(Enum):
    """What the agent does next with the worker group."""

    RESTART = "restart"
    STOP = "stop"


class Budget(Enum):
    """Which allowance a restart is charged to."""

    PROGRAM = "program"  # bounded by --max-restarts
    INFRASTRUCTURE = "infrastructure"  # rate-limited per node
    UNCHARGED = "uncharged"  # caused by us, the rendezvous, or the platform


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision per incident; every agent acts on the recorded one only."""

    action: Action
    reason: str
    budget: Budget
    exit_code: int = 1  # of resilient-run, where action is STOP
    deterministic: bool = False  # trying again would fail again: do not requeue
    warm: bool = True  # whether standbys may serve the next attempt


class PastAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier attempt of this run, as far as later decisions need it."""

    attempt: int
    ended_at: float
    diagnosis: Diagnosis
    budget: Budget
    phase: str  # "start", "load", "step 120": where the first failing rank was
    furthest_step: int | None = None
    made_progress: bool = False  # by itself; `decide.progress` compares it with earlier attempts


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds a decision has to keep, copied from flags and policy into its record."""

    max_restarts: int  # of torchrun's flag: failures of the training program
    infra_restarts_per_hour: int
    rendezvous_retries: int
    strict_exit: bool = False
    stalled_attempts: int = 2  # this many in a row without progress end the run; 0 is never


class DecisionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of decisions.jsonl: enough to decide again and compare."""

    schema: int = 1
    at: float
    evidence: AttemptEvidence
    history: tuple[PastAttempt, ...]
    allowance: Allowance
    diagnosis: Diagnosis
    decision: Decision
