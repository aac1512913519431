"""What the evidence says: a class, a first rank, a sentence, and the lines it rests on."""

from enum import Enum

import msgspec


class FailureClass(Enum):
    """Names used in records, JSON and metrics. The full list grows with the log readers."""

    USER_ERROR = "user_error"
    CONFIG_ERROR = "config_error"
    RANK_ABSENT = "rank_absent"
    WORKER_CRASH = "worker_crash"
    WORKER_KILLED = "worker_killed"
    HOST_OOM = "host_oom"
    RENDEZVOUS = "rendezvous"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    MEMBERSHIP = "membership"  # nodes left or joined: no failure, and charged to nothing
    PEER_GONE = "peer_gone"
    WARM_START = "warm_start"  # ours: a standby was not equivalent; never charged to the program
    UNDETERMINED = "undetermined"


class Kind(Enum):
    """Finer than the class, where what to do depends on it."""

    OTHER = "other"
    NO_FAILURE = "no_failure"  # no worker failed
    USAGE = "usage"  # wrong arguments, or no such script or module
    IMPORT = "import"  # something that the program needs is not there
    SYNTAX = "syntax"
    EXCEPTION = "exception"
    ENVIRONMENT = "environment"  # an exception about network or storage: it may pass by itself
    EXIT = "exit"  # a code of its own, without an exception
    RETURNED = "returned"  # the rank had ended well while others still waited for it


class EvidenceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line that the diagnosis rests on."""

    source: str  # "exit", "error_file", "output", "cgroup", "proc", "node", "history"
    text: str
    line: int | None = None
    at: float | None = None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to "what happened", with its confidence between 0 and 1."""

    class_: FailureClass = msgspec.field(name="class")
    first_rank: int | None
    host: str
    confidence: float
    sentence: str
    fingerprint: str  # equal for failures that are the same failure again
    kind: Kind = Kind.OTHER
    victims: tuple[int, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
