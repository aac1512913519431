"""Opens a session around torch's launching code, and ends it with the report.

`elastic_launch` is torch's class of that name for Python callers; `resilient-run` uses the same
`session_for`.
"""

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from resilient import __version__
from resilient.act.prctl import get_subreaper, set_subreaper
from resilient.act.scribe_client import Scribe
from resilient.agent.drive import drive
from resilient.agent.failopen import failing_open
from resilient.agent.fitness import unfit
from resilient.agent.recorder import say
from resilient.agent.session import Session, open_session
from resilient.agent.torch_seam import SignalException, launch, launcher_api
from resilient.model.errors import ResilientError
from resilient.model.policy import Policy, parse
from resilient.report.masking import mask_argv
from resilient.report.page import wants_colour, width_of
from resilient.report.terminal import render
from resilient.sense.processes import is_stuck

STUCK_S = 6.0  # for which the scribe has to be seen stopped, or in state D, to be given up
DRAIN_S = 2.0  # for the last output to reach the console, where more may come for ever


@dataclass
class Outcome:
    """What the command prints after everything else, and its exit code."""

    exit_code: int = 0
    report: str = ""
    run_dir: str | None = None
    threads_stuck: bool = False  # in C++: the process has to be left without Python's ending

    def show(self) -> None:
        """Print the report on stderr, and where it lies."""
        if not self.report:
            return
        text = self.report.rstrip("\n") + "\n"
        if self.run_dir:
            path = Path(self.run_dir)
            near = path.is_relative_to(Path.cwd())
            text += f"More: resilient report {path.relative_to(Path.cwd()) if near else path}\n"
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # nobody reads it any more; that must not change the exit code
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@contextmanager
def session_for(
    policy: Policy, argv: list[str], *, hooks: bool, outcome: Outcome | None
) -> Iterator[Session]:
    """A session with its scribe; at the end writes run.json and fills in `outcome`.

    Without an `outcome` we are a library in somebody's program, and print no report.
    """
    scribe, why = _start_scribe()
    session = open_session(
        policy,
        _shown(argv),
        scribe,
        version=__version__,
        torch_version=str(torch.__version__),
        hooks=hooks,
        library=outcome is None,
    )
    if why:
        session.miss(f"output capture and the run directory: {why}")
    if not hooks:
        session.miss("warm start and step counting: the workers are not Python scripts")
    try:
        yield session
    except BaseException as error:
        session.exit_code = session.exit_code or 1
        _finish(session, _sentence(session, error), outcome)
        raise
    else:
        session.exit_code = 0
        _finish(session, _sentence(session, None), outcome)


def _shown(argv: list[str]) -> tuple[str, ...]:
    try:
        return tuple(mask_argv(argv))
    except Exception as error:  # never unmasked
        say(f"internal error while masking the command line ({error!r}); it is not recorded")
        return ()


def _start_scribe() -> tuple[Scribe | None, str]:
    try:
        return Scribe.start(), ""
    except Exception as error:  # without it we still are a launcher
        return None, f"no process for it could be started ({error!r})"


def _sentence(session: Session, error: BaseException | None) -> str:
    incidents = session.recorder.incidents
    if error is None:
        count = len(incidents)
        return "Finished." if not count else f"Finished, after {count} incident{'s'[: count > 1]}."
    if isinstance(error, SignalException) and _launcher_is_gone(session):
        return "The launcher itself was killed, so everything that it had started was ended."
    if isinstance(error, SignalException):
        return f"Stopped by {error.sigval.name} from outside."
    if incidents:
        return incidents[max(incidents)].sentence
    if isinstance(error, ResilientError):
        return str(error)
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


def _launcher_is_gone(session: Session) -> bool:
    """The kernel tells us of the keeper's death by SIGTERM."""
    return not session.library and os.getppid() != session.parent


def _finish(session: Session, sentence: str, outcome: Outcome | None) -> None:
    """Every part by itself: an error in one must not cost the others."""
    recorder, scribe = session.recorder, session.scribe
    with failing_open(recorder, "ending the run's records"):
        session.hear()
        recorder.update_run(
            ended_at=time.time(),
            exit_code=session.exit_code,
            sentence=sentence,
            dropped_records=scribe.dropped() if scribe is not None else 0,
        )
    if outcome is not None:
        outcome.exit_code = session.exit_code or 0
        outcome.threads_stuck = session.threads_stuck
        outcome.run_dir = scribe.run_dir if scribe is not None else None
        with failing_open(recorder, "writing the report"):
            outcome.report = render(
                recorder.run,
                list(recorder.incidents.values()),
                width=width_of(sys.stderr, os.environ),
                colour=wants_colour(sys.stderr, os.environ),
                run_dir=outcome.run_dir or "",
            )
    if scribe is not None:
        with failing_open(recorder, "closing the run directory"):
            _drain(session, scribe)
            scribe.close()
            session.hear()


def _drain(session: Session, scribe: Scribe) -> None:
    """Wait for the last output to reach the console.

    Somebody may read slowly, or has paused the terminal: torchrun's workers wait too. But a scribe
    that is itself stopped, or stuck in a dead file system, would be waited for in vain.
    """
    bounded, stuck_for_s = session.library or session.writers_left, 0.0
    while not scribe.drain(session.recorder.attempt, timeout_s=DRAIN_S) and not bounded:
        stuck_for_s = stuck_for_s + DRAIN_S if is_stuck(scribe.pid) else 0.0
        if stuck_for_s >= STUCK_S:
            say("the process that writes the records is stuck; what it had not written is lost")
            return


def is_python(entrypoint: Any) -> bool:
    """Whether a command is a Python interpreter, so that the hook can run in it."""
    if not isinstance(entrypoint, str):
        return False
    named = os.environ.get("PYTHON_EXEC")
    return entrypoint in {sys.executable, named} or bool(
        re.fullmatch(r"(python|pypy)[\d.]*t?", Path(entrypoint).name)
    )


class elastic_launch:  # noqa: N801 - torch's name
    """`torch.distributed.launcher.api.elastic_launch`, with resilient-run's behaviour.

    Raises what torch's raises: ChildFailedError, SignalException, rendezvous errors; and Misuse
    for mistakes in RESILIENT_* variables.
    """

    def __init__(self, config: Any, entrypoint: Any, health_check_server: Any = None) -> None:
        self._config, self._entrypoint = config, entrypoint
        self._more = () if health_check_server is None else (health_check_server,)

    def __call__(self, *args: Any) -> Any:
        """Run the worker group to its end and return the workers' values by global rank."""
        policy, _ = parse(os.environ)
        why = unfit()
        if why is not None or policy.passthrough:
            say(f"running plain torch elastic: {why or 'RESILIENT_PASSTHROUGH is set'}")
            return launcher_api.elastic_launch(self._config, self._entrypoint, *self._more)(*args)
        words = [str(word) for word in (self._entrypoint, *args)]
        hooks = is_python(self._entrypoint)
        with as_subreaper(), session_for(policy, words, hooks=hooks, outcome=None) as session:
            launcher = launch(partial(drive, session))
            return launcher(self._config, self._entrypoint, *self._more)(*args)


@contextmanager
def as_subreaper() -> Iterator[None]:
    """Orphans of the workers become our children for as long as we run."""
    before = get_subreaper()
    set_subreaper(True)
    try:
        yield
    finally:
        set_subreaper(bool(before))
