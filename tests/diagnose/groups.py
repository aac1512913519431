"""Merged evidence of a group of nodes: two ranks each, ranks 0 and 1 on h1, 2 and 3 on h2, …"""

from typing import Any

import msgspec

from diagnose.samples import START, end
from resilient.model.evidence import (
    AttemptEvidence,
    NodePart,
    NodeTrouble,
    NodeTroubleKind,
    WorkerEnd,
)

LOST, FENCED, LEAVING, PREEMPTED, RECYCLE, JOINING = NodeTroubleKind


def on(rank: int, exit_code: int, mono: float = 100.0, **more: Any) -> WorkerEnd:
    """A worker's end in common time."""
    found = end(rank, exit_code, mono, **more)
    return msgspec.structs.replace(found, host=f"h{rank // 2 + 1}", mono=found.at)


def trouble(node: int, kind: NodeTroubleKind, at: float = 100.0, **more: Any) -> NodeTrouble:
    fields: dict[str, Any] = {"ranks": (2 * node - 2, 2 * node - 1), "uncertainty_s": 0.01, **more}
    return NodeTrouble(node=f"h{node}-0", host=f"h{node}", kind=kind, at=START + at, **fields)


def group(*ends: WorkerEnd, nodes: int = 3, **more: Any) -> AttemptEvidence:
    """`troubles`, `uncertainty_s` of each node's clock, `done`: whether each is."""
    uncertainty_s, done = more.pop("uncertainty_s", 0.01), more.pop("done", False)
    parts = tuple(
        NodePart(
            node=f"h{n}-0",
            host=f"h{n}",
            first_rank=2 * n - 2,
            nproc=2,
            uncertainty_s=uncertainty_s,
            done=done,
        )
        for n in range(1, nodes + 1)
    )
    fields: dict[str, Any] = {
        "attempt": 0,
        "started_at": START,
        "noticed_at": START + 100.0,
        "nodes": tuple(more.pop("troubles", ())),
        **more,
    }
    return AttemptEvidence(host="h1", ends=ends, parts=parts, **fields)
