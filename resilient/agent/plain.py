"""Watching as torchrun does, for when a part of ours has failed: torch's own tick, by polling."""

import time

from torch.distributed.elastic.agent.server.api import WorkerState

from resilient.agent.attempt import Attempt, Outcome
from resilient.agent.session import Session
from resilient.agent.torch_seam import RunResult, SeamAgent


def tick_until_over(session: Session, agent: SeamAgent) -> RunResult | None:
    """Tick every --monitor-interval until the group succeeded or failed; None after a signal."""
    while session.signals.first is None:
        result = agent.tick()
        if result.state in {WorkerState.SUCCEEDED, WorkerState.FAILED, WorkerState.UNHEALTHY}:
            return result
        time.sleep(agent.group.spec.monitor_interval)
    return None


def watch_plainly(
    session: Session, agent: SeamAgent, attempt: Attempt
) -> tuple[Outcome, RunResult | None]:
    """The outcome of an attempt whose workers are commands, seen through torch's eyes."""
    result = tick_until_over(session, agent)
    attempt.noticed_at, attempt.noticed = time.time(), time.monotonic()
    if result is None:
        return Outcome.SIGNAL, None
    well = result.state is WorkerState.SUCCEEDED
    return (Outcome.SUCCEEDED if well else Outcome.FAILED), result
