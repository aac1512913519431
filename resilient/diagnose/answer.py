"""From a finding to the whole answer: victims, certainty, and the lines that it rests on."""

from collections.abc import Sequence

from resilient.diagnose.evidence_lines import of_end as lines_of
from resilient.diagnose.evidence_lines import of_worker, repeated
from resilient.diagnose.finding import Finding
from resilient.diagnose.nodes import lines as lines_of_nodes
from resilient.diagnose.nodes import of_trouble
from resilient.diagnose.outcome import warnings
from resilient.diagnose.parts import DOUBTFUL, all_done, doubt_words
from resilient.diagnose.wording import ranks
from resilient.model.decision import PastAttempt
from resilient.model.diagnosis import Diagnosis, EvidenceLine, FailureClass, Kind
from resilient.model.evidence import AttemptEvidence, NodeTrouble, StoppedWorker, WorkerEnd

_QUOTED_VICTIMS = 4


def with_worker(
    named: tuple[Finding, WorkerEnd | StoppedWorker | None],
    failures: Sequence[WorkerEnd],
    evidence: AttemptEvidence,
    history: Sequence[PastAttempt],
    *,
    rivals: Sequence[int] = (),
) -> Diagnosis:
    """The answer where a worker is the first, or none can be named. `rivals`: ranks that may
    have failed before it."""
    finding, worker = named
    others = [end for end in failures if worker is None or end.rank != worker.rank]
    alike = [end for end in others if worker is not None and _alike(end, finding)]
    victims = [end for end in others if worker is None or not _alike(end, finding)]
    sentence = finding.sentence
    if alike:
        also = ranks(end.rank for end in alike)
        sentence = f"{sentence.rstrip('.')}; {also} failed in the same way."
    if rivals:
        sentence += doubt_words(rivals)
    return Diagnosis(
        class_=finding.class_,
        first_rank=worker.rank if worker is not None else None,
        host=worker.host if worker is not None else finding.host or evidence.host,
        confidence=min(finding.confidence, DOUBTFUL) if rivals else finding.confidence,
        sentence=sentence,
        fingerprint=finding.fingerprint,
        kind=finding.kind,
        victims=tuple(sorted(end.rank for end in victims)),
        evidence=(
            *of_worker(worker, evidence),
            *(line for end in victims[:_QUOTED_VICTIMS] for line in lines_of(end)[-1:]),
            *lines_of_nodes(evidence),
            *repeated(finding.class_, finding.fingerprint, history),
        ),
    )


def _alike(end: WorkerEnd, finding: Finding) -> bool:
    return end.error is not None and end.error.fingerprint == finding.fingerprint


def with_node(
    named: tuple[NodeTrouble, int | None],
    failures: Sequence[WorkerEnd],
    evidence: AttemptEvidence,
    history: Sequence[PastAttempt],
) -> Diagnosis:
    """The answer where a whole node is the first, and a rank may have failed before it."""
    trouble, rival = named
    finding = of_trouble(trouble, evidence)
    own = set(trouble.ranks)
    victims = [end for end in failures if end.rank not in own]
    return Diagnosis(
        class_=finding.class_,
        first_rank=min(own, default=None),
        host=finding.host,
        confidence=min(finding.confidence, DOUBTFUL) if rival is not None else finding.confidence,
        sentence=finding.sentence + (doubt_words([rival]) if rival is not None else ""),
        fingerprint=finding.fingerprint,
        victims=tuple(sorted(end.rank for end in victims)),
        evidence=(
            *lines_of_nodes(evidence),
            *(line for end in victims[:_QUOTED_VICTIMS] for line in lines_of(end)[-1:]),
            *repeated(finding.class_, finding.fingerprint, history),
        ),
    )


def _every_node(nodes: int) -> str:
    """The node, both nodes, all 3 nodes."""
    return {1: "the node", 2: "both nodes"}.get(nodes, f"all {nodes} nodes")


def nothing_failed(evidence: AttemptEvidence, own: Sequence[WorkerEnd]) -> Diagnosis:
    """The answer where no worker failed by itself. `own`: those that we did not stop."""
    done = bool(own) and not evidence.still_running
    if evidence.parts:  # a node that said nothing has not succeeded
        done = all_done(evidence)
    if all_done(evidence):
        sentence = f"No worker failed: {_every_node(len(evidence.parts))} ended with success."
    elif own:
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
        confidence=0.9 if done else 0.0,
        sentence=sentence,
        fingerprint="no_failure",
        kind=Kind.NO_FAILURE if done else Kind.OTHER,
        evidence=(*lines, *lines_of_nodes(evidence)),
    )
