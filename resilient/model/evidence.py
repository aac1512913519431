"""What was seen of one attempt's end, as recorded before anything was concluded from it.

Times named `at` are seconds since the epoch on this node's clock; times named `mono` are
seconds on its monotonic clock and only comparable within one node and boot.
"""

from enum import Enum

import msgspec


class Phase(Enum):
    """How far a worker had come, from the outside in; `step` carries a number beside it."""

    START = "start"  # torch not imported yet, or the hook did not run
    LOAD = "load"  # torch imported, no optimizer step yet
    STEP = "step"  # at least one optimizer step done
    TEARDOWN = "teardown"  # the script's main has returned


class ErrorText(msgspec.Struct, frozen=True, kw_only=True):
    """A Python exception as the worker left it, in an error file or on its error output."""

    type: str  # qualified name as printed, e.g. "torch.OutOfMemoryError"
    message: str  # first 500 characters
    source: str  # "error_file" or "output"
    fingerprint: str  # stable over addresses, pids, ports, numbers; equal for equal failures
    location: str = ""  # innermost "file:line in function" outside torch and the stdlib
    related: tuple[str, ...] = ()  # "Type: message" of those it was raised from, or that it groups


class WorkerEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How one worker ended. Exactly one of `exit_code >= 0` and a negative signal number."""

    rank: int
    local_rank: int
    pid: int
    host: str
    exit_code: int  # as subprocess reports it: -9 is SIGKILL
    mono: float
    at: float
    sent: str = ""  # signal that we had sent it before it died ("SIGTERM", "SIGKILL"), else ""
    released: bool = False  # we had shut its group's sockets down before
    main_ended: bool = False  # the bootstrap saw main return or SystemExit(0)
    phase: Phase = Phase.START
    step: int | None = None  # absolute optimizer step where it is known, else steps of this life
    error: ErrorText | None = None
    tail: tuple[str, ...] = ()  # last lines of its output, at most 20 lines and 2 KiB

    @property
    def ours(self) -> bool:
        """Whether we caused this death: then it is never evidence."""
        return bool(self.sent) or self.released


class StoppedWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that was stopped (SIGSTOP) for longer than the policy allows; not dead by itself."""

    rank: int
    local_rank: int
    pid: int
    host: str
    seconds: float
    phase: Phase = Phase.START
    step: int | None = None


class NodeTroubleKind(Enum):
    """What happens to a node as a whole."""

    LOST = "lost"  # its heartbeat is gone
    FENCED = "fenced"  # it could not reach the store in time, and has killed its own workers
    LEAVING = "leaving"  # it was told to stop
    PREEMPTED = "preempted"  # the platform takes it back
    RECYCLE = "recycle"  # a process on it cannot be killed
    JOINING = "joining"  # it waits to be taken in


class NodeTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """One node's trouble, in the evidence of a group of several nodes."""

    node: str
    host: str
    kind: NodeTroubleKind
    ranks: tuple[int, ...] = ()  # global ranks in the attempt that ended; none for one that joins
    why: str = ""  # e.g. the signal by which it was told to stop
    at: float = 0.0  # seconds since the epoch, by the clock of the evidence
    silent_s: float = 0.0  # of a lost one; of the store, for a fenced one
    uncertainty_s: float = 0.0  # of `at`
    alarmed: bool = False  # its alarm was the first of the attempt: all were stopped for it


class NodePart(msgspec.Struct, frozen=True, kw_only=True):
    """What must stay apart for each node when the evidence of a group is merged."""

    node: str
    host: str
    first_rank: int  # global
    nproc: int
    uncertainty_s: float = 0.0  # of its clock against the clock of the evidence
    oom_kills: int = 0  # on this node alone
    done: bool = False  # all its workers succeeded


class AttemptEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that one node saw of an attempt's end, up to the decision."""

    attempt: int
    host: str
    started_at: float
    noticed_at: float
    ends: tuple[WorkerEnd, ...] = ()  # in order of death by our own monotonic clock
    stopped: tuple[StoppedWorker, ...] = ()
    still_running: tuple[int, ...] = ()  # global ranks
    oom_kills: int = 0  # growth of the cgroup's oom_kill counter during this attempt
    furthest_step: int | None = None  # highest absolute step seen on this node in this attempt
    first_step: int | None = None  # absolute step it resumed from, where known
    late_mismatch: bool = False  # a standby could not reproduce a cold start and gave up
    warm: tuple[int, ...] = ()  # global ranks that came from a standby
    unkillable: tuple[int, ...] = ()  # pids that survived SIGKILL (state D)
    nodes: tuple[NodeTrouble, ...] = ()  # of a group of several: nodes that leave, join, are lost
    parts: tuple[NodePart, ...] = ()  # of a group of several: all its nodes, by group rank
