"""The lines that a diagnosis rests on."""

from collections.abc import Sequence

from resilient.diagnose.exit_status import words
from resilient.diagnose.parts import oom_kills
from resilient.diagnose.wording import named
from resilient.model.decision import PastAttempt
from resilient.model.diagnosis import EvidenceLine, FailureClass
from resilient.model.evidence import AttemptEvidence, StoppedWorker, WorkerEnd


def of_worker(
    worker: WorkerEnd | StoppedWorker | None, evidence: AttemptEvidence
) -> tuple[EvidenceLine, ...]:
    """About the worker that is named first, and the memory group."""
    lines: list[EvidenceLine] = []
    if isinstance(worker, StoppedWorker):
        text = f"rank {worker.rank}: state T for {worker.seconds:.1f} s"
        lines.append(EvidenceLine(source="proc", text=text, at=evidence.noticed_at))
    elif worker is not None:
        lines += of_end(worker)
    kills, on = evidence.oom_kills, ""
    if evidence.parts and worker is not None:
        kills, on = oom_kills(evidence, worker.rank), f" on {worker.host}"
    text = f"oom_kill counter of the memory group{on}: +{kills}"
    return (*lines, EvidenceLine(source="cgroup", text=text))


def of_end(end: WorkerEnd) -> list[EvidenceLine]:
    """Exit status, then the exception where one was left."""
    status = f"rank {end.rank} (pid {end.pid}): {words(end.exit_code)}"
    lines = [EvidenceLine(source="exit", text=status, at=end.at)]
    if end.error is not None:
        text = f"rank {end.rank}: {named(end.error)}"
        text += "".join(f" (before it: {one[:160]})" for one in end.error.related[:1])
        lines.append(EvidenceLine(source=end.error.source, text=text, at=end.at))
    return lines


def repeated(
    class_: FailureClass, print_: str, history: Sequence[PastAttempt]
) -> tuple[EvidenceLine, ...]:
    """Earlier attempts that ended in the same way."""
    return tuple(
        EvidenceLine(
            source="history", text=f"attempt {past.attempt} ended in the same way ({past.phase})"
        )
        for past in history[-3:]
        if past.diagnosis.fingerprint == print_ and past.diagnosis.class_ is class_
    )
