"""Nodes in the merged evidence of a group: what must not be mixed between them.

In the evidence of a single node there are no parts, and everything here says so: the whole
count of memory kills, and no doubt about the order of events.
"""

from bisect import bisect_right
from collections.abc import Iterable

from resilient.diagnose.wording import ranks
from resilient.model.evidence import AttemptEvidence, NodePart, NodeTrouble, WorkerEnd

DOUBTFUL = 0.5  # the most that can be made of an order that is not known


def part_of(evidence: AttemptEvidence, rank: int) -> NodePart | None:
    """The node that a rank ran on, where nodes are told apart."""
    at = bisect_right(evidence.parts, rank, key=lambda part: part.first_rank) - 1
    part = evidence.parts[at] if at >= 0 else None
    return part if part is not None and rank < part.first_rank + part.nproc else None


def oom_kills(evidence: AttemptEvidence, rank: int) -> int:
    """Processes killed for memory on the rank's node."""
    part = part_of(evidence, rank)
    return part.oom_kills if part is not None else evidence.oom_kills


def doubt_s(evidence: AttemptEvidence, one: int, other: int) -> float:
    """Events of two ranks that are no further apart than this have no known order."""
    if not evidence.parts:
        return 0.0
    first, second = part_of(evidence, one), part_of(evidence, other)
    if first is None or second is None:
        return float("inf")
    return 0.0 if first is second else first.uncertainty_s + second.uncertainty_s


def doubt_of_trouble_s(evidence: AttemptEvidence, trouble: NodeTrouble, rank: int) -> float:
    """The same for a node's trouble and a rank."""
    part = part_of(evidence, rank)
    if part is None:
        return float("inf") if evidence.parts else trouble.uncertainty_s
    return 0.0 if part.node == trouble.node else part.uncertainty_s + trouble.uncertainty_s


def all_done(evidence: AttemptEvidence) -> bool:
    """Whether every node of a group said that all its workers had succeeded."""
    return bool(evidence.parts) and all(part.done for part in evidence.parts)


def doubts(
    evidence: AttemptEvidence, worker: int, at: float, others: Iterable[tuple[int, float]]
) -> tuple[int, ...]:
    """Of other ranks and their times, those on other nodes that may have come first as well."""
    if not evidence.parts:
        return ()
    own = part_of(evidence, worker)
    return tuple(
        rank
        for rank, other_at in others
        if part_of(evidence, rank) is not own
        and abs(other_at - at) <= doubt_s(evidence, worker, rank)
    )


def doubt_words(numbers: Iterable[int]) -> str:
    """The sentence for an order that is not known."""
    return (
        f" Whether this or the failure of {ranks(numbers)} came first is not known: the clocks of "
        "the nodes are not that exact."
    )


def elsewhere(evidence: AttemptEvidence) -> str:
    """Where the first cause was not found."""
    if len(evidence.parts) > 1:
        return f"on any of the {len(evidence.parts)} nodes"
    return f"here, on {evidence.host}"


def memory_host(evidence: AttemptEvidence, ends: Iterable[WorkerEnd]) -> str:
    """The host on which the kernel killed for memory: the one of an end's, else any; or ""."""
    hit = [part for part in evidence.parts if part.oom_kills > 0]
    hosts = [part.host for part in hit]
    return next((end.host for end in ends if end.host in hosts), hosts[0] if hosts else "")
