"""Recorded evidence in words, one line for each thing that was seen."""

from resilient.model.evidence import AttemptEvidence, Phase, WorkerEnd
from resilient.report.text import duration, exit_words, ranks

_PHASE = {
    Phase.START: "before torch was imported",
    Phase.LOAD: "before its first step",
    Phase.STEP: "while training",
    Phase.TEARDOWN: "after its script had ended",
}


def evidence_lines(evidence: AttemptEvidence) -> list[str]:
    """What was seen of an attempt's end, in the order of our own clock."""
    lines = [
        f"attempt {evidence.attempt} on {evidence.host}, noticed "
        f"{duration(evidence.noticed_at - evidence.started_at)} after its start"
    ]
    first = evidence.ends[0].mono if evidence.ends else 0.0
    for end in evidence.ends:
        lines.append(_end(end, end.mono - first))
    for one in evidence.stopped:
        lines.append(
            f"rank {one.rank} (pid {one.pid}) stood stopped for {duration(one.seconds)} "
            f"{_where(one.phase, one.step)}"
        )
    if evidence.still_running:
        running = ranks(evidence.still_running)
        lines.append(f"{running} still ran")
    if evidence.oom_kills:
        lines.append(f"the kernel's count of processes killed for memory: +{evidence.oom_kills}")
    if evidence.warm:
        lines.append(f"{ranks(evidence.warm)} came from waiting processes (warm)")
    if evidence.late_mismatch:
        lines.append("a waiting process could not reproduce a cold start")
    if evidence.unkillable:
        pids = ", ".join(map(str, evidence.unkillable))
        lines.append(f"cannot be killed: pid {pids}")
    if evidence.furthest_step is not None:
        came_from = "" if evidence.first_step is None else f", from step {evidence.first_step}"
        lines.append(f"it had come to step {evidence.furthest_step}{came_from}")
    return lines


def _end(end: WorkerEnd, after: float) -> str:
    words = [f"rank {end.rank} (pid {end.pid}) ended: {exit_words(end.exit_code)}"]
    words.append(_where(end.phase, end.step))
    if after > 0:
        words.append(f"{duration(after)} after the first")
    if end.sent:
        words.append(f"we had sent {end.sent}")
    if end.released:
        words.append("we had cut its connections")
    if end.main_ended and end.phase is not Phase.TEARDOWN:
        words.append("its script had ended well")
    if end.error:
        words.append(f"it left {end.error.type}: {end.error.message} ({end.error.source})")
    return ", ".join(words)


def _where(phase: Phase, step: int | None) -> str:
    return _PHASE[phase] if step is None else f"at step {step}"
