"""Our own bug is logged and the job goes on: fail open."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from resilient.agent.recorder import Recorder, say
from resilient.agent.torch_seam import SignalException

REPEATS = 3  # the same part failing at every tick must not flood the log


@contextmanager
def failing_open(recorder: Recorder, what: str) -> Iterator[None]:
    """Run an optional part of ours; an error in it is recorded and goes no further."""
    try:
        yield
    except SignalException:
        raise
    except Exception as error:
        note(recorder, what, error)


def note(recorder: Recorder, what: str, error: Exception) -> None:
    """Record and say an error of ours that is being handled."""
    recorder.bugs[what] += 1
    if recorder.bugs[what] <= REPEATS:
        recorder.event("bug", what=what, error=repr(error), traceback=traceback.format_exc())
        say(f"internal error while {what} ({error!r}); the job goes on without it")
