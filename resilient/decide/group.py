"""From what all nodes saw of an attempt to one decision for all of them.

    reports, losses, newcomers ─► merge ─► judge ─► change ─► record

Pure: whoever proposes, anybody can decide again from the case and must get the same.
"""

from collections.abc import Iterable

from resilient.decide.common_time import CommonTime
from resilient.decide.judge import Diagnose, judge
from resilient.decide.membership import change, needs_recycling, reports_of
from resilient.decide.troubles import troubles
from resilient.model.decision import Allowance, PastAttempt
from resilient.model.evidence import AttemptEvidence, NodePart
from resilient.model.membership import GroupCase, GroupRecord, NodeReport, NodeState


def decide_group(
    case: GroupCase,
    history: tuple[PastAttempt, ...],
    allowance: Allowance,
    diagnose: Diagnose,
    *,
    at: float,
) -> GroupRecord:
    """What happened, what to do, and with which nodes. Total; `at` (seconds since the epoch) is
    only noted. Where the change's verdict is WAIT, decide again later with a new case."""
    evidence = merge(case)
    diagnosis, decision = judge(evidence, history, allowance, diagnose)
    return GroupRecord(
        at=at,
        evidence=evidence,
        history=history,
        allowance=allowance,
        diagnosis=diagnosis,
        decision=decision,
        case=case,
        change=change(case, decision),
    )


def merge(case: GroupCase) -> AttemptEvidence:
    """All nodes' evidence as one, by the clock of the store's host.

    `mono` becomes that common time too, so that it orders what happened on different nodes; what
    happened on one node keeps the order and the distances of its own monotonic clock.
    """
    reports = reports_of(case)
    seen = {name: one.evidence for name, one in reports.items() if one.evidence is not None}
    time = CommonTime(case, reports)
    own = [time.of_node(name, evidence) for name, evidence in seen.items()]
    lost = {rank for one in case.lost if one.node not in reports for rank in one.ranks}
    stuck = [name for name, report in reports.items() if needs_recycling(report)]
    return AttemptEvidence(
        attempt=case.view.attempt,
        host=_host_of(case),
        started_at=min((one.started_at for one in own), default=time.noticed_at),
        noticed_at=time.noticed_at,
        ends=tuple(
            sorted((end for one in own for end in one.ends), key=lambda end: (end.mono, end.rank))
        ),
        stopped=tuple(worker for one in own for worker in one.stopped),
        still_running=_ranks(rank for one in own for rank in one.still_running if rank not in lost),
        oom_kills=sum(one.oom_kills for one in own),
        furthest_step=_furthest(own),
        first_step=min((one.first_step for one in own if one.first_step is not None), default=None),
        warm=_ranks(rank for one in own for rank in one.warm),
        late_mismatch=any(one.late_mismatch for one in own),
        # One node with such a process leaves the group; where all have one, nobody can go on.
        unkillable=tuple(pid for one in own for pid in one.unkillable)
        if set(stuck) == set(case.view.names)
        else (),
        nodes=troubles(case, reports, time),
        parts=_parts(case, reports, time),
    )


def _host_of(case: GroupCase) -> str:
    hosts = {card.node: card.host for card in case.view.members}
    return hosts.get(case.proposer, case.proposer)


def _ranks(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers)))


def _furthest(seen: list[AttemptEvidence]) -> int | None:
    """The highest step. Nodes that do not know absolute numbers count where none does."""
    known = [one for one in seen if one.first_step is not None]
    return max(
        (one.furthest_step for one in known or seen if one.furthest_step is not None), default=None
    )


def _parts(
    case: GroupCase, reports: dict[str, NodeReport], time: CommonTime
) -> tuple[NodePart, ...]:
    """One for each member; none where a single one says all: its evidence is a node's own."""
    dead = [one for one in reports.values() if one.state is NodeState.DEAD]
    if len(case.view.members) == 1 and any(one.evidence is not None for one in dead):
        return ()
    parts, first = [], 0
    for card in case.view.members:
        report = reports.get(card.node)
        seen = report.evidence if report is not None else None
        parts.append(
            NodePart(
                node=card.node,
                host=card.host,
                first_rank=first,
                nproc=card.nproc,
                uncertainty_s=time.uncertainty_s(card.node),
                oom_kills=seen.oom_kills if seen is not None else 0,
                done=report is not None and report.state is NodeState.DONE,
            )
        )
        first += card.nproc
    return tuple(parts)
