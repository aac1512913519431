"""Whole nodes as the first cause: lost, told to stop, taken back, or waiting to be taken in.

    troubles ─► the earliest that can have ended the attempt
             ─► a worker's own failure clearly before it?  then that one is the cause

A lost node can have ended it at any time; the others only where all were stopped for them.
"""

from collections.abc import Sequence

from resilient.diagnose.finding import Finding
from resilient.diagnose.parts import doubt_of_trouble_s
from resilient.diagnose.wording import ranks
from resilient.model.diagnosis import EvidenceLine, FailureClass
from resilient.model.evidence import AttemptEvidence, NodeTrouble, NodeTroubleKind

SOURCE = "node"
_NAMED = 3  # nodes in a sentence
_QUOTED = 8  # nodes in the evidence
_CLASS = {
    NodeTroubleKind.LOST: FailureClass.NODE_LOST,
    NodeTroubleKind.FENCED: FailureClass.NODE_LOST,
    NodeTroubleKind.PREEMPTED: FailureClass.PREEMPTED,
}


def first_trouble(
    evidence: AttemptEvidence, failed: tuple[int, float] | None
) -> tuple[NodeTrouble, int | None] | None:
    """The node to be named, and the rank whose failure may have come before, in doubt.

    `failed`: the first worker that failed by itself, and when in common time; None for none.
    """
    possible = [t for t in evidence.nodes if t.alarmed or t.kind is NodeTroubleKind.LOST]
    first = min(possible, key=lambda t: (t.at, not t.alarmed, t.ranks), default=None)
    if first is None or failed is None:
        return None if first is None else (first, None)
    rank, at = failed
    doubt = doubt_of_trouble_s(evidence, first, rank)
    later = first.at - at  # than the worker
    if later > doubt or (doubt == 0 and later == 0):  # on one node, noticing is no earlier
        return None
    return first, rank if abs(later) <= doubt else None


def of_trouble(first: NodeTrouble, evidence: AttemptEvidence) -> Finding:
    """What it means."""
    class_ = _CLASS.get(first.kind, FailureClass.MEMBERSHIP)
    alike = [one for one in evidence.nodes if one.kind is first.kind and one is not first]
    return Finding(
        class_,
        0.9,
        _sentence(first, alike),
        f"{class_.value}:{first.kind.value}:{first.host}",
        host=first.host,
    )


def lines(evidence: AttemptEvidence) -> tuple[EvidenceLine, ...]:
    """Every trouble of a node, at most _QUOTED."""
    return tuple(
        EvidenceLine(source=SOURCE, text=f"{_who(one)}: {_what(one)}", at=one.at)
        for one in evidence.nodes[:_QUOTED]
    )


def _who(trouble: NodeTrouble) -> str:
    where = f" ({ranks(trouble.ranks)})" if trouble.ranks else ""
    return f"node {trouble.host}{where}"


def _what(trouble: NodeTrouble) -> str:
    if trouble.kind is NodeTroubleKind.FENCED:
        return f"no answer from the store for {trouble.silent_s:.1f} s"
    if trouble.kind is NodeTroubleKind.LOST:
        back = f"; {trouble.why}" if trouble.why else ""
        return f"no heartbeat for {trouble.silent_s:.1f} s{back}"
    why = f" ({trouble.why})" if trouble.why else ""
    return f"{trouble.kind.value}{why}"


def _sentence(first: NodeTrouble, alike: Sequence[NodeTrouble]) -> str:
    who = _who(first)
    also = _also(alike)
    if first.kind is NodeTroubleKind.LOST:
        text = f"{who} fell silent: no heartbeat for {first.silent_s:.1f} s{also}"
        if first.why:
            text += f"; {first.why}, so it was slow or cut off for a time."
        else:
            text += "; its host, its agent or the network to it is gone."
    elif first.kind is NodeTroubleKind.FENCED:
        text = (
            f"{who} had no answer from the store that the nodes share for {first.silent_s:.1f} s, "
            "so it killed its own workers; the store's host, its name service or the network "
            "stood still for a time."
        )
    elif first.kind is NodeTroubleKind.JOINING:
        text = f"nothing failed: all ranks were stopped to take in {who}{also}."
    elif first.kind is NodeTroubleKind.PREEMPTED:
        by = f", and said so by {first.why}" if first.why else ""
        text = f"the platform takes {who} back{by}{also}."
    elif first.kind is NodeTroubleKind.RECYCLE:
        text = f"{who} left: a process on it cannot be killed{also}."
    else:
        by = f" by {first.why}" if first.why else ""
        text = f"{who} was told to stop{by}{also}; nothing of the program failed."
    return text[0].upper() + text[1:]


def _also(alike: Sequence[NodeTrouble]) -> str:
    """(also node h3 (rank 2), node h4 (rank 3) and 4 more)."""
    if not alike:
        return ""
    more = f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
    return f" (also {', '.join(_who(one) for one in alike[:_NAMED])}{more})"
