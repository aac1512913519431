"""Results in torch's own terms, for the code of torch that called us."""

from collections.abc import Sequence

from torch.distributed.elastic.agent.server.api import WorkerState

from resilient.agent.attempt import Attempt
from resilient.agent.torch_seam import ProcessFailure, RunResult, SeamAgent
from resilient.model.diagnosis import Diagnosis
from resilient.model.evidence import WorkerEnd


def succeeded_result(attempt: Attempt) -> RunResult:
    """Commands return nothing; torch maps every rank to None."""
    values = {worker.rank: None for worker in attempt.workers.values()}
    return RunResult(state=WorkerState.SUCCEEDED, return_values=values)


def nothing_done(agent: SeamAgent) -> RunResult:
    """Success of a node that was never needed; torch wants a value for each rank it knows."""
    values = {worker.global_rank: None for worker in agent.group.workers}
    return RunResult(state=WorkerState.SUCCEEDED, return_values=values)


def failed_result(agent: SeamAgent, attempt: Attempt, diagnosis: Diagnosis) -> RunResult:
    """The failures, first cause first and without processes that we killed ourselves.

    torch takes the failure with the smallest time for the root cause and counts in whole
    seconds, so the first cause is given the smallest.
    """
    ends: Sequence[WorkerEnd] = attempt.endings.failures()
    ordered = sorted(ends, key=lambda end: (end.rank != diagnosis.first_rank, end.mono))
    failures = {}
    for end in ordered:
        failures[end.rank] = ProcessFailure(
            local_rank=end.local_rank,
            pid=end.pid,
            exitcode=end.exit_code,
            error_file=agent.error_file(end.local_rank),
        )
    for stopped in attempt.stopped.values():
        failures.setdefault(
            stopped.rank,
            ProcessFailure(
                local_rank=stopped.local_rank, pid=stopped.pid, exitcode=-9, error_file=""
            ),
        )
    first = failures.get(diagnosis.first_rank) if diagnosis.first_rank is not None else None
    if first is not None:
        first.timestamp = min(failure.timestamp for failure in failures.values())
    return RunResult(state=WorkerState.FAILED, failures=failures)
