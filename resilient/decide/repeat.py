"""Would another attempt fail in the same way? Then it is not made."""

from collections.abc import Sequence

from resilient.decide.place import before_first_step, is_step
from resilient.decide.progress import advanced
from resilient.model.decision import PastAttempt
from resilient.model.diagnosis import Diagnosis, FailureClass, Kind

_AT_FIRST_SIGHT = {
    Kind.USAGE: "wrong arguments stay wrong",
    Kind.IMPORT: "what cannot be imported now cannot be imported in the next attempt",
    Kind.SYNTAX: "a syntax error stays one",
}
# A bare exit code says too little, and network and storage come back by themselves.
_COMPARABLE = {Kind.USAGE, Kind.IMPORT, Kind.SYNTAX, Kind.EXCEPTION, Kind.RETURNED}


def hopeless(diagnosis: Diagnosis, place: str, history: Sequence[PastAttempt]) -> str:
    """Why the first such error is enough to stop, or "". Not where an attempt got past it."""
    why = _AT_FIRST_SIGHT.get(diagnosis.kind, "")
    if not why or not before_first_step(place):
        return ""
    return "" if any(is_step(past.phase) or past.furthest_step for past in history) else why


def repeated(
    diagnosis: Diagnosis, place: str, history: Sequence[PastAttempt]
) -> PastAttempt | None:
    """The earlier attempt that failed in the same way at the same place, with no progress since.

    "The same way" is the same fingerprint, for a crash the same class.
    """
    crash = diagnosis.class_ is FailureClass.WORKER_CRASH
    if not crash and diagnosis.kind not in _COMPARABLE:
        return None
    for past, moved in zip(reversed(history), reversed(advanced(history)), strict=True):
        same = past.diagnosis.fingerprint == diagnosis.fingerprint
        if past.phase == place and past.diagnosis.class_ is diagnosis.class_ and (crash or same):
            return past
        if moved:
            return None
    return None
