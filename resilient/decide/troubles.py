"""What happened to whole nodes around an attempt's end, in the evidence of the group."""

from collections.abc import Mapping

from resilient.decide.common_time import CommonTime
from resilient.decide.membership import needs_recycling, reports_of
from resilient.model.evidence import NodeTrouble, NodeTroubleKind
from resilient.model.membership import GroupCase, LostNode, NodeCard, NodeReport, Trouble

_OF_ALARM = {
    Trouble.NODE_LOST: NodeTroubleKind.LOST,
    Trouble.FENCED: NodeTroubleKind.FENCED,
    Trouble.LEAVING: NodeTroubleKind.LEAVING,
    Trouble.PREEMPTED: NodeTroubleKind.PREEMPTED,
    Trouble.JOINING: NodeTroubleKind.JOINING,
}
CAME_BACK = "it came back"


def troubles(
    case: GroupCase, reports: Mapping[str, NodeReport], time: CommonTime
) -> tuple[NodeTrouble, ...]:
    """Members by group rank, then newcomers; at most one trouble for each node.

    The one for which all were stopped is marked, and is there even where nothing else is left of
    it: a newcomer that went away again, a node that was taken for lost.
    """
    found: list[NodeTrouble] = []
    members = {card.node: card for card in case.view.members}
    lost = {one.node: one for one in case.lost}
    first = 0
    for card in case.view.members:
        ranks = tuple(range(first, first + card.nproc))
        trouble = _of_member(card, ranks, case, reports.get(card.node), time)
        if trouble is None and card.node in lost:
            trouble = _lost(card, ranks, lost[card.node], case, time)
        if trouble is not None:
            found.append(trouble)
        first += card.nproc
    for card in {card.node: card for card in case.joining}.values():
        if card.node not in members:
            found.append(_joining(card.node, card.host, case, time))
    if _planned(case) and not any(one.alarmed for one in found):
        found.append(_from_alarm(case, members, time))
    return tuple(found)


def _planned(case: GroupCase) -> bool:
    """Whether the alarm was about a node as a whole, and not about a worker."""
    return case.alarm is not None and case.alarm.trouble in _OF_ALARM


def _of_member(
    card: NodeCard,
    ranks: tuple[int, ...],
    case: GroupCase,
    report: NodeReport | None,
    time: CommonTime,
) -> NodeTrouble | None:
    if report is None or not (went := _went(report)):
        return None
    kind, why = went
    alarmed = _is_alarmed(card.node, case)
    if alarmed and case.alarm is not None:
        at, uncertainty_s = _alarm_time(case, time)
    else:
        seen = report.evidence
        at = time.at(card.node, seen.noticed_at) if seen is not None else time.noticed_at
        uncertainty_s = time.uncertainty_s(card.node)
    return NodeTrouble(
        node=card.node,
        host=card.host,
        kind=kind,
        ranks=ranks,
        why=why,
        at=at,
        uncertainty_s=uncertainty_s,
        # A process that cannot be killed is found only when all are stopped already.
        alarmed=alarmed and (case.alarm is not None or kind is not NodeTroubleKind.RECYCLE),
    )


def _went(report: NodeReport) -> tuple[NodeTroubleKind, str] | None:
    """Why a node goes that says so itself."""
    if report.preempted:
        return NodeTroubleKind.PREEMPTED, report.leaving
    if needs_recycling(report):
        pids = report.evidence.unkillable if report.evidence is not None else ()
        return NodeTroubleKind.RECYCLE, f"pid {', '.join(map(str, pids))}" if pids else ""
    return (NodeTroubleKind.LEAVING, report.leaving) if report.leaving else None


def _lost(
    card: NodeCard, ranks: tuple[int, ...], lost: LostNode, case: GroupCase, time: CommonTime
) -> NodeTrouble:
    return NodeTrouble(
        node=card.node,
        host=card.host,
        kind=NodeTroubleKind.LOST,
        ranks=ranks,
        at=time.lost_at(lost),
        silent_s=lost.silent_s,
        uncertainty_s=time.uncertainty_s(case.proposer),
        alarmed=_is_alarmed(card.node, case),
    )


def _is_alarmed(node: str, case: GroupCase) -> bool:
    """Whether all were stopped for this member; without a known alarm, for whoever goes."""
    if case.alarm is None:
        return True
    return _planned(case) and (case.alarm.about or case.alarm.node) == node


def _alarm_time(case: GroupCase, time: CommonTime) -> tuple[float, float]:
    assert case.alarm is not None
    speaker = case.alarm.node
    return time.at(speaker, case.alarm.at), time.uncertainty_s(speaker)


def _joining(node: str, host: str, case: GroupCase, time: CommonTime) -> NodeTrouble:
    alarm = case.alarm
    if alarm is None:
        at, uncertainty_s, alarmed = time.noticed_at, 0.0, _nothing_else(case)
    else:
        at, uncertainty_s = _alarm_time(case, time)
        # Where the one that it was about has gone again, it is as good for the others.
        here = any(card.node == alarm.about for card in case.joining)
        alarmed = alarm.trouble is Trouble.JOINING and (not here or node == alarm.about)
    return NodeTrouble(
        node=node,
        host=host,
        kind=NodeTroubleKind.JOINING,
        at=at,
        uncertainty_s=uncertainty_s,
        alarmed=alarmed,
    )


def _nothing_else(case: GroupCase) -> bool:
    """Whether nothing but a newcomer can have ended the attempt. Newcomers wait at any time."""
    if case.lost:
        return False
    for report in reports_of(case).values():
        seen = report.evidence
        if report.leaving or report.preempted:
            return False
        if seen is not None and (
            seen.stopped
            or seen.late_mismatch
            or any(end.exit_code and not end.ours for end in seen.ends)
        ):
            return False
    return True


def _from_alarm(case: GroupCase, members: Mapping[str, NodeCard], time: CommonTime) -> NodeTrouble:
    """What the alarm said, where nothing but the alarm is left of it."""
    alarm = case.alarm
    assert alarm is not None
    node = alarm.about or alarm.node
    card = members.get(node)
    first = case.view.first_rank(node) if card is not None else 0
    at, uncertainty_s = _alarm_time(case, time)
    kind = _OF_ALARM[alarm.trouble]
    lost = kind is NodeTroubleKind.LOST
    silent = lost or kind is NodeTroubleKind.FENCED
    return NodeTrouble(
        node=node,
        host=card.host if card is not None else node,
        kind=kind,
        ranks=tuple(range(first, first + card.nproc)) if card is not None else (),
        why=CAME_BACK if lost else "",
        at=at - alarm.silent_s if silent else at,
        silent_s=alarm.silent_s if silent else 0.0,
        uncertainty_s=uncertainty_s,
        alarmed=True,
    )
