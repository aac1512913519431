"""Where in its life an attempt ended, in the words that are compared between attempts."""

from resilient.model.diagnosis import Diagnosis
from resilient.model.evidence import AttemptEvidence, Phase, StoppedWorker, WorkerEnd


def place_of(evidence: AttemptEvidence, diagnosis: Diagnosis) -> str:
    """ "start", "load", "step 120" or "teardown": where the first failing rank was, else the
    first one that ended without our doing."""
    workers: tuple[WorkerEnd | StoppedWorker, ...] = (*evidence.stopped, *evidence.ends)
    named = [one for one in workers if one.rank == diagnosis.first_rank]
    own = sorted((e for e in evidence.ends if not e.ours), key=lambda e: (e.mono, e.rank))
    worker = next(iter(named or own), None)
    if worker is None and evidence.nodes:  # all had to stop for a node: as far as any had come
        worker = max(evidence.ends, key=lambda end: (end.step or 0, -end.rank), default=None)
    if worker is None:
        return Phase.START.value
    if worker.phase is Phase.TEARDOWN or not worker.step:
        return worker.phase.value if worker.phase is not Phase.STEP else Phase.LOAD.value
    return f"step {worker.step}"


def is_step(place: str) -> bool:
    """Whether an optimizer step had been done there."""
    return place.startswith("step ")


def before_first_step(place: str) -> bool:
    """Whether none had been done there, as far as is known."""
    return place in (Phase.START.value, Phase.LOAD.value)
