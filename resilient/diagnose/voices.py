"""What a failed worker's end speaks of: itself, a signal, or another process that was gone.

The smaller, the better it is as a first cause. Workers that only say that they waited, or that
somebody was gone, are victims as long as anything better is known.
"""

from enum import IntEnum

from resilient.diagnose import signatures
from resilient.diagnose.exit_status import CRASHES, signal_of
from resilient.model.evidence import ErrorText, WorkerEnd

_LAST_LINES = 6  # of the output, where a program that caught an exception may have told of it


class Voice(IntEnum):
    """Order: within a second, the smaller one is the first cause."""

    TRACEBACK = 0
    SIGNAL = 1
    EXIT = 2  # a code of its own without a word
    CONNECTION = 3  # its own connection to somebody, or a text that fits both
    TIMEOUT = 4
    PEER = 5

    @property
    def strong(self) -> bool:
        """Whether it says something about the worker itself."""
        return self <= Voice.EXIT


def voice(end: WorkerEnd) -> Voice:
    """The voice of a worker that failed and that we did not kill."""
    number = signal_of(end.exit_code)
    if number in CRASHES and (taken := _taken_down(end)):
        return taken
    if end.error is not None and not _interrupted(end.error, number):
        return _of_error(end.error)
    if number or end.error is not None:
        return Voice.SIGNAL
    return next(
        (found for line in reversed(end.tail[-_LAST_LINES:]) if (found := _mark(line)) is not None),
        Voice.EXIT,
    )


def speaks_of_error(end: WorkerEnd) -> bool:
    """Whether the exception that it left, rather than its exit status, tells why it ended."""
    return end.error is not None and not _interrupted(end.error, signal_of(end.exit_code))


def _interrupted(error: ErrorText, number: int) -> bool:
    """Whether a signal ended the process, and the exception is an effect or an older matter.

    A crash right after an exception is the interpreter's shutdown: then the exception counts.
    """
    if error.type == "KeyboardInterrupt":
        return True
    return bool(number) and number not in CRASHES and error.source != "error_file"


def _taken_down(end: WorkerEnd) -> Voice | None:
    text = "\n".join(end.tail)
    if end.error is not None or not signatures.TAKEN_DOWN.search(text):
        return None
    return Voice.TIMEOUT if signatures.TIMEOUT.search(text) else Voice.PEER


def _of_error(error: ErrorText) -> Voice:
    own = f"{error.type}: {error.message}"
    if signatures.ADDRESS_IN_USE.search(own):
        return Voice.TRACEBACK
    if error.type.endswith("ExceptionGroup") and error.related:
        marks = [_mark(text) for text in error.related]
        return Voice.TRACEBACK if None in marks else min(m for m in marks if m is not None)
    marks = [_mark(text) for text in (*error.related, own)]
    if marks[0] is not None:  # what it all began with
        return marks[0]
    # Began with something of its own and went on to a lost peer, or the other way round.
    return Voice.CONNECTION if any(mark is not None for mark in marks) else Voice.TRACEBACK


def _mark(text: str) -> Voice | None:
    """What a line "Type: message" says of others; None where it says nothing of them."""
    kind = text.partition(":")[0].strip()
    of_the_job = signatures.OF_THE_JOB.search(text) is not None
    if not of_the_job and signatures.OWN_CONNECTION.match(kind):
        return Voice.CONNECTION
    found = None
    if signatures.PEER_GONE.search(text):
        found = Voice.PEER
    elif signatures.TIMEOUT.search(text):
        found = Voice.TIMEOUT
    if found is None or of_the_job:
        return found
    return Voice.CONNECTION
