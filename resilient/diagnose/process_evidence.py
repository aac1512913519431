"""The first cause of an attempt's end, from how its processes ended, and from that alone.

    ends ─► without those that we caused, and without successes
         ─► was a whole node the cause?  `nodes`
         ─► do any speak for themselves?  yes ─► earliest; within a second the better voice
                                          no  ─► `victims`

Pure and total: any evidence that can be recorded gets an answer, if only "undetermined".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resilient.diagnose.answer import nothing_failed, with_node, with_worker
from resilient.diagnose.finding import Finding
from resilient.diagnose.findings import of_end, of_late_mismatch, of_stopped
from resilient.diagnose.nodes import first_trouble
from resilient.diagnose.outcome import failed
from resilient.diagnose.parts import all_done, doubts
from resilient.diagnose.victims import of_victims
from resilient.diagnose.voices import Voice, voice
from resilient.model.decision import PastAttempt
from resilient.model.diagnosis import Diagnosis, Kind
from resilient.model.evidence import AttemptEvidence, NodeTrouble, StoppedWorker, WorkerEnd
from resilient.model.protocol import LATE_MISMATCH_EXIT

WINDOW_S = 1.0  # deaths this close together are ordered by what they say


@dataclass(frozen=True)
class _Cause:
    """A candidate for the first cause."""

    voice: Voice
    mono: float
    rank: int
    worker: WorkerEnd | StoppedWorker
    finding: Finding


def speaks_of_a_peer(end: WorkerEnd) -> bool:
    """Whether a failed worker's end may only repeat what happened to another one."""
    return not voice(end).strong


def diagnose(
    evidence: AttemptEvidence, history: Sequence[PastAttempt] = (), *, strict: bool = False
) -> Diagnosis:
    """What happened in the attempt. `strict`: a signal after the script's end is a failure too."""
    own = sorted((end for end in evidence.ends if not end.ours), key=_order)
    failures = [end for end in own if failed(end, strict=strict)]
    causes = [_cause(end, evidence) for end in failures]
    causes += [_stop(worker, evidence) for worker in evidence.stopped]
    if all_done(evidence):
        return nothing_failed(evidence, own)
    first = _first(causes)
    named = _node(first, evidence)
    if named is not None:
        return with_node(named, failures, evidence, history)
    if first is not None:
        rivals = _rivals(first, causes, evidence)
        return with_worker(
            (first.finding, first.worker), failures, evidence, history, rivals=rivals
        )
    if evidence.late_mismatch:
        late = _earliest(e for e in evidence.ends if e.exit_code == LATE_MISMATCH_EXIT)
        return with_worker((of_late_mismatch(late), late), failures, evidence, history)
    if failures:
        finished = [end for end in own if not failed(end, strict=strict)]
        finding, worker = of_victims(failures, finished, evidence)
        unsure: tuple[int, ...] = ()
        if worker is not None and finding.kind is Kind.RETURNED:  # it rests on the order
            times = [(end.rank, end.mono) for end in failures[:1]]
            unsure = doubts(evidence, worker.rank, worker.mono, times)
        return with_worker((finding, worker), failures, evidence, history, rivals=unsure)
    return nothing_failed(evidence, own)


def _order(end: WorkerEnd) -> tuple[float, int]:
    return end.mono, end.rank


def _earliest(ends: Iterable[WorkerEnd]) -> WorkerEnd | None:
    return min(ends, key=_order, default=None)


def _cause(end: WorkerEnd, evidence: AttemptEvidence) -> _Cause:
    # Attempt 0 has no standby: there the code is the program's own.
    if end.exit_code == LATE_MISMATCH_EXIT and (evidence.late_mismatch or evidence.attempt > 0):
        return _Cause(Voice.TRACEBACK, end.mono, end.rank, end, of_late_mismatch(end))
    said = voice(end)
    return _Cause(said, end.mono, end.rank, end, of_end(end, evidence, said))


def _stop(worker: StoppedWorker, evidence: AttemptEvidence) -> _Cause:
    """A stop counts as a signal, at the time when it was first seen."""
    at = evidence.noticed_at - worker.seconds
    known = _earliest(evidence.ends)
    mono = known.mono + (at - known.at) if known is not None else at
    return _Cause(Voice.SIGNAL, mono, worker.rank, worker, of_stopped(worker, evidence))


def _first(causes: Sequence[_Cause]) -> _Cause | None:
    """The first cause; None where all only speak of others."""
    strong = [cause for cause in causes if cause.voice.strong]
    if not strong:
        own = [cause for cause in causes if cause.voice is Voice.CONNECTION]
        return min(own, key=lambda cause: (cause.mono, cause.rank), default=None)
    until = min(cause.mono for cause in strong) + WINDOW_S
    near = [cause for cause in strong if cause.mono <= until] or strong
    return min(near, key=lambda cause: (cause.voice, cause.mono, cause.rank))


def _rivals(first: _Cause, causes: Sequence[_Cause], evidence: AttemptEvidence) -> tuple[int, ...]:
    """Ranks on other nodes that failed otherwise and may have done so before the first one."""
    others = (
        (cause.rank, cause.mono)
        for cause in causes
        if (cause.voice.strong or cause.voice is first.voice)
        and cause.rank != first.rank
        and cause.finding.fingerprint != first.finding.fingerprint
    )
    return doubts(evidence, first.rank, first.mono, others)


def _node(first: _Cause | None, evidence: AttemptEvidence) -> tuple[NodeTrouble, int | None] | None:
    """A whole node as the cause, and the rank that may have failed before it."""
    if first is None or not first.voice.strong:
        return first_trouble(evidence, None)
    return first_trouble(evidence, (first.rank, first.mono))
