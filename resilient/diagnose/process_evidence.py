"""The first cause of an attempt's end, from how its processes ended, and from that alone.

    ends ─► without those that we caused, and without successes
         ─► do any speak for themselves?  yes ─► earliest; within a second the better voice
                                          no  ─► `victims`

Pure and total: any evidence that can be recorded gets an answer, if only "undetermined".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resilient.diagnose.evidence_lines import of_end as lines_of
from resilient.diagnose.evidence_lines import of_worker, repeated
from resilient.diagnose.finding import Finding
from resilient.diagnose.findings import of_end, of_late_mismatch, of_stopped
from resilient.diagnose.outcome import failed, warnings
from resilient.diagnose.victims import of_victims
from resilient.diagnose.voices import Voice, voice
from resilient.diagnose.wording import ranks
from resilient.model.decision import PastAttempt
from resilient.model.diagnosis import Diagnosis, EvidenceLine, FailureClass, Kind
from resilient.model.evidence import AttemptEvidence, StoppedWorker, WorkerEnd
from resilient.model.protocol import LATE_MISMATCH_EXIT

WINDOW_S = 1.0  # deaths this close together are ordered by what they say
_QUOTED_VICTIMS = 4


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
    first = _first(causes)
    if first is not None:
        return _diagnosis(first.finding, first.worker, failures, evidence, history)
    if evidence.late_mismatch:
        late = _earliest(e for e in evidence.ends if e.exit_code == LATE_MISMATCH_EXIT)
        return _diagnosis(of_late_mismatch(late), late, failures, evidence, history)
    if failures:
        finished = [end for end in own if not failed(end, strict=strict)]
        finding, worker = of_victims(failures, finished, evidence)
        return _diagnosis(finding, worker, failures, evidence, history)
    return _nothing_failed(evidence, own)


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


def _diagnosis(
    finding: Finding,
    worker: WorkerEnd | StoppedWorker | None,
    failures: Sequence[WorkerEnd],
    evidence: AttemptEvidence,
    history: Sequence[PastAttempt],
) -> Diagnosis:
    others = [end for end in failures if worker is None or end.rank != worker.rank]
    alike = [end for end in others if worker is not None and _alike(end, finding)]
    victims = [end for end in others if end not in alike]
    sentence = finding.sentence
    if alike:
        also = ranks(end.rank for end in alike)
        sentence = f"{sentence.rstrip('.')}; {also} failed in the same way."
    return Diagnosis(
        class_=finding.class_,
        first_rank=worker.rank if worker is not None else None,
        host=worker.host if worker is not None else evidence.host,
        confidence=finding.confidence,
        sentence=sentence,
        fingerprint=finding.fingerprint,
        kind=finding.kind,
        victims=tuple(sorted(end.rank for end in victims)),
        evidence=(
            *of_worker(worker, evidence),
            *(line for end in victims[:_QUOTED_VICTIMS] for line in lines_of(end)[-1:]),
            *repeated(finding.class_, finding.fingerprint, history),
        ),
    )


def _alike(end: WorkerEnd, finding: Finding) -> bool:
    return end.error is not None and end.error.fingerprint == finding.fingerprint


def _nothing_failed(evidence: AttemptEvidence, own: Sequence[WorkerEnd]) -> Diagnosis:
    if own:
        sentence = f"No worker failed: {ranks(end.rank for end in own)} ended with success."
    elif evidence.ends:
        sentence = "No worker failed by itself; all that ended had been stopped by resilient-run."
    else:
        sentence = "No worker's end was seen."
    lines = [line for end in own for line in lines_of(end)]
    lines += [EvidenceLine(source="exit", text=text) for text in warnings(own)]
    return Diagnosis(
        class_=FailureClass.UNDETERMINED,
        first_rank=None,
        host=evidence.host,
        confidence=0.9 if own and not evidence.still_running else 0.0,
        sentence=sentence,
        fingerprint="no_failure",
        kind=Kind.NO_FAILURE if own and not evidence.still_running else Kind.OTHER,
        evidence=tuple(lines),
    )
