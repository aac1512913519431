"""Which nodes take part in the next attempt, and whether it can begin.

the nodes of the attempt ─► without those that are lost, leave or need recycling
                         ─► with those that wait, in order, as long as there is room
enough of them?  yes ─► GO
                 no  ─► WAIT, and STOP when that took too long
"""

from collections.abc import Iterable

from resilient.decide.restart import FAILED
from resilient.model.decision import Action, Decision
from resilient.model.membership import Change, GroupCase, NodeCard, NodeReport, Verdict, View

RECYCLE = "recycle"  # why a node leaves on which a process cannot be killed
_NAMED = 4  # nodes in a sentence


def change(case: GroupCase, decision: Decision) -> Change:
    """What becomes of the group, given what is to be done about its attempt. Pure and total."""
    removed = removals(case)
    gone = tuple(removed)
    if decision.action is Action.STOP:
        return Change(
            verdict=Verdict.STOP,
            reason=decision.reason,
            remove=gone,
            exit_code=decision.exit_code,
        )
    stay = [card for card in case.view.members if card.node not in removed]
    added = _added(case, stay)
    verdict, why = _verdict(case, removed, len(stay), len(stay) + len(added))
    going = added if verdict is Verdict.GO else ()
    parts = (why, _gone_words(case, removed), _listed("joining", (card.host for card in going)))
    return Change(
        verdict=verdict,
        reason="; ".join(part for part in parts if part),
        remove=gone,
        add=going,
        exit_code=FAILED,
    )


def apply(view: View, change: Change) -> View:
    """The nodes of the next attempt: those that stay keep their order, new ones come last."""
    members = [card for card in view.members if card.node not in change.remove]
    known = {card.node for card in members}
    for card in change.add:
        if card.node not in known:
            members.append(card)
            known.add(card.node)
    return View(attempt=view.attempt + 1, members=tuple(members))


def reports_of(case: GroupCase) -> dict[str, NodeReport]:
    """Each member's report on this attempt, by group rank. Others' are none of its business."""
    found = {
        report.node: report
        for report in reversed(case.reports)
        if report.attempt == case.view.attempt
    }
    return {name: found[name] for name in case.view.names if name in found}


def needs_recycling(report: NodeReport) -> bool:
    """Whether a process on the node cannot be killed: it may hold a GPU or a port."""
    seen = report.evidence
    return report.leaving == RECYCLE or (seen is not None and bool(seen.unkillable))


def removals(case: GroupCase) -> dict[str, str]:
    """Members that take no further part, by group rank, and why: "lost", "recycle", "SIGTERM"."""
    reports = reports_of(case)
    lost = {one.node for one in case.lost}
    found = {}
    for name in case.view.names:
        report = reports.get(name)
        if report is not None and needs_recycling(report):
            found[name] = RECYCLE
        elif report is not None and report.leaving:
            found[name] = report.leaving
        elif name in lost:
            found[name] = "lost"
    return found


def _added(case: GroupCase, stay: list[NodeCard]) -> tuple[NodeCard, ...]:
    """Newcomers for whom there is room. A node that left is not given work again."""
    reports = reports_of(case)
    refused = {card.node for card in stay}
    refused |= {name for name, one in reports.items() if one.leaving or needs_recycling(one)}
    found: list[NodeCard] = []
    for card in case.joining:
        if len(stay) + len(found) >= case.limits.max_nodes:
            break
        if card.node not in refused:
            found.append(card)
            refused.add(card.node)
    return tuple(found)


def _verdict(
    case: GroupCase, removed: dict[str, str], staying: int, total: int
) -> tuple[Verdict, str]:
    limits = case.limits
    broken = [name for name, why in removed.items() if why in ("lost", RECYCLE)]
    before = len(case.view.members)
    if not staying:  # a newcomer knows nothing of the run, and nobody is left to wait
        return Verdict.STOP, "no node of the group is left"
    if broken and limits.on_loss == "stop":
        return Verdict.STOP, "a node is gone, and RESILIENT_ON_NODE_LOSS is stop"
    if total < limits.min_nodes:
        return _too_few(case, total)
    # One that was told to leave need not be replaced.
    missing = min(before - (len(removed) - len(broken)), limits.max_nodes) - total
    if limits.on_loss == "wait" and broken and missing > 0 and case.waited_s < limits.wait_s:
        return Verdict.WAIT, f"waiting for {_nodes(missing)} (RESILIENT_ON_NODE_LOSS is wait)"
    return Verdict.GO, _going_on(before, total, same=not removed)


def _too_few(case: GroupCase, total: int) -> tuple[Verdict, str]:
    limits = case.limits
    there = "1 node is" if total == 1 else f"{total} nodes are"
    why = f"{there} there, at least {limits.min_nodes} needed (--nnodes)"
    if limits.on_loss == "stop":
        return Verdict.STOP, why
    if case.waited_s < limits.wait_s:
        return Verdict.WAIT, f"{why}; waiting for another"
    return Verdict.STOP, f"{why}, and none came within {limits.wait_s:g} s"


def _going_on(before: int, total: int, *, same: bool) -> str:
    if total != before:
        return f"{_nodes(total)} instead of {before}"
    return f"the same {_nodes(total)}" if same else _nodes(total)


def _gone_words(case: GroupCase, removed: dict[str, str]) -> str:
    """lost: h2; leaving (SIGTERM): h3; in need of recycling: h4."""
    hosts = {card.node: card.host for card in case.view.members}
    kinds: dict[str, list[str]] = {}
    for name, why in removed.items():
        known = {"lost": "lost", RECYCLE: "in need of recycling"}
        kinds.setdefault(known.get(why, f"leaving ({why})"), []).append(hosts[name])
    return "; ".join(_listed(kind, names) for kind, names in kinds.items())


def _listed(what: str, hosts: Iterable[str]) -> str:
    names = list(hosts)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{what}: {', '.join(names[:_NAMED])}{more}" if names else ""


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"
