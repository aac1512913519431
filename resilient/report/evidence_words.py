"""Recorded evidence in words, one line for each thing that was seen."""

from resilient.model.evidence import (
    AttemptEvidence,
    NodeTrouble,
    NodeTroubleKind,
    Phase,
    WorkerEnd,
)
from resilient.report.text import duration, exit_words, ranks, several

_PHASE = {
    Phase.START: "before torch was imported",
    Phase.LOAD: "before its first step",
    Phase.STEP: "while training",
    Phase.TEARDOWN: "after its script had ended",
}
_ENDS_SHOWN = 16  # of a group's workers; a single node's are all shown
_NODES_SHOWN = 8
_NO_CLOCK_S = 60.0  # an uncertainty that says nothing any more
_TROUBLE = {
    NodeTroubleKind.LOST: "fell silent",
    NodeTroubleKind.FENCED: "had no answer from the store",
    NodeTroubleKind.LEAVING: "was told to stop",
    NodeTroubleKind.PREEMPTED: "is taken back by the platform",
    NodeTroubleKind.RECYCLE: "has a process that cannot be killed",
    NodeTroubleKind.JOINING: "waited to be taken in",
}


def evidence_lines(evidence: AttemptEvidence) -> list[str]:
    """What was seen of an attempt's end, in the order of our own clock; of a group's workers
    those that ended by themselves come first, and not all are shown."""
    several_nodes = len(evidence.parts) > 1
    on = f"{len(evidence.parts)} nodes, as {evidence.host} saw it" if several_nodes else ""
    lines = [
        f"attempt {evidence.attempt} on {on or evidence.host}, noticed "
        f"{duration(evidence.noticed_at - evidence.started_at)} after its start"
    ]
    lines += [_node(one) for one in evidence.nodes[:_NODES_SHOWN]]
    if len(evidence.nodes) > _NODES_SHOWN:
        lines.append(f"and {len(evidence.nodes) - _NODES_SHOWN} more nodes like these")
    first = evidence.ends[0].mono if evidence.ends else 0.0
    ends = evidence.ends
    if several_nodes and len(ends) > _ENDS_SHOWN:
        ends = tuple(sorted(ends, key=lambda end: end.ours))[:_ENDS_SHOWN]
    for end in ends:
        lines.append(_end(end, end.mono - first, host=several_nodes))
    if len(ends) < len(evidence.ends):
        left = len(evidence.ends) - len(ends)
        ours = sum(end.ours for end in evidence.ends) - sum(end.ours for end in ends)
        lines.append(f"{several(left, 'more worker')} ended; we had stopped {ours} of them")
    if several_nodes:
        worst = max(part.uncertainty_s for part in evidence.parts)
        within = (
            f"known to within {worst * 1000:.1f} ms" if worst < _NO_CLOCK_S else "not all known"
        )
        lines.append(f"the nodes' clocks are {within}")
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


def _node(trouble: NodeTrouble) -> str:
    which = f" ({ranks(trouble.ranks)})" if trouble.ranks else ""
    words = [f"node {trouble.host}{which} {_TROUBLE[trouble.kind]}"]
    if trouble.kind is NodeTroubleKind.LOST:
        words.append(f"no heartbeat for {duration(trouble.silent_s)}")
    if trouble.why:
        words.append(trouble.why)
    if trouble.alarmed:
        words.append("and all were stopped for it")
    return ", ".join(words)


def _end(end: WorkerEnd, after: float, *, host: bool) -> str:
    on = f" on {end.host}" if host else ""
    words = [f"rank {end.rank} (pid {end.pid}{on}) ended: {exit_words(end.exit_code)}"]
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
