"""Workers that are Python functions (`elastic_launch(config, fn)`, `--run-path`).

torch starts and watches them, since they return values; what happens after a failure is decided
by the same rules as for commands. No hook runs in them, so nothing is known of their steps.
"""

import time

from torch.distributed.elastic.agent.server.api import WorkerState

from resilient.agent.endings import without_secrets
from resilient.agent.failopen import failing_open
from resilient.agent.incidents import Incidents
from resilient.agent.oom import OomCounter
from resilient.agent.outlets import Outlets
from resilient.agent.plain import tick_until_over
from resilient.agent.recorder import say
from resilient.agent.run_id import agree_on_run_id
from resilient.agent.session import Session
from resilient.agent.torch_seam import (
    ProcessFailure,
    RunResult,
    SeamAgent,
    signals_to_handle,
)
from resilient.agent.verdicts import Verdicts
from resilient.diagnose.traceback_text import from_error_file
from resilient.model.decision import Action
from resilient.model.evidence import AttemptEvidence, WorkerEnd


def run_functions(session: Session, agent: SeamAgent) -> RunResult:
    """Attempts until success or a stop. Raises SignalException after a signal."""
    session.miss("output capture and warm start: the workers are Python functions")
    try:
        return _attempts(session, agent)
    finally:
        session.signals.remove()


def _attempts(session: Session, agent: SeamAgent) -> RunResult:
    verdicts, incidents, outlets = Verdicts(session, agent), Incidents(session), Outlets(session)
    number = 0
    while True:
        session.recorder.attempt = number
        started, oom = time.time(), OomCounter()
        with session.signals.interruptible():
            agent.begin(number)
        if not session.signals.installed:  # see Driver: not before the first rendezvous
            for problem in session.signals.install(signals_to_handle()):
                session.miss(problem)
        if not session.run_id:
            session.run_id = agree_on_run_id(session, agent.group)
            with failing_open(session.recorder, "opening the run directory"):
                outlets.open_run(agent)
        session.recorder.update_run(attempts=number + 1)
        incidents.spawned()
        session.recorder.event("attempt.start", pids=list(agent.pids().values()))
        result = tick_until_over(session, agent)
        if result is None:
            error = session.signals.exception()
            agent.close_group(int(error.sigval), agent.stop_grace_s)
            raise error
        if result.state is WorkerState.SUCCEEDED:
            incidents.close(None)
            with session.signals.interruptible():
                agent.succeed()
            return result
        evidence = _evidence(session, number, started, result, oom)
        diagnosis, decision = verdicts.give(evidence)
        with failing_open(session.recorder, "opening an incident"):
            incidents.begin(evidence, diagnosis, decision, "")
        say(diagnosis.sentence)
        agent.close_group(15, agent.stop_grace_s)
        if decision.action is Action.STOP:
            session.exit_code = decision.exit_code
            return result
        say(f"restarting (attempt {number + 1}): {decision.reason}")
        number += 1


def _evidence(
    session: Session, number: int, started: float, result: RunResult, oom: OomCounter
) -> AttemptEvidence:
    ends = tuple(_end(session, rank, failure) for rank, failure in result.failures.items())
    return AttemptEvidence(
        attempt=number,
        host=session.host,
        started_at=started,
        noticed_at=time.time(),
        ends=ends,
        oom_kills=oom.growth(),
    )


def _end(session: Session, rank: int, failure: ProcessFailure) -> WorkerEnd:
    error = without_secrets(from_error_file(failure.error_file_data))
    return WorkerEnd(
        rank=rank,
        local_rank=failure.local_rank,
        pid=failure.pid,
        host=session.host,
        exit_code=failure.exitcode,
        mono=time.monotonic(),
        at=float(failure.timestamp),
        error=error,
    )
