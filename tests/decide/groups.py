"""Groups of nodes as their agents describe them, and the real decision about them."""

from typing import Any

import msgspec
from diagnose.samples import START, end
from hypothesis import strategies as st

from decide.histories import TORCHRUN
from resilient.decide.group import decide_group
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import Allowance, PastAttempt
from resilient.model.evidence import AttemptEvidence, WorkerEnd
from resilient.model.membership import (
    Alarm,
    GroupCase,
    GroupRecord,
    LostNode,
    NodeCard,
    NodeLimits,
    NodeReport,
    NodeState,
    Trouble,
    View,
)

NPROC = 2
NOTICED = START + 100.0
PROPOSER = "h1-0"


def card(node: str, nproc: int = NPROC) -> NodeCard:
    """A node "h3-0" lies on the host "h3"."""
    return NodeCard(node=node, host=node.partition("-")[0], nproc=nproc)


def view(*hosts: str, attempt: int = 0) -> View:
    return View(attempt=attempt, members=tuple(card(f"{host}-0") for host in hosts))


def on(host: str, rank: int, exit_code: int, mono: float = 100.0, **more: Any) -> WorkerEnd:
    """A worker's end; `mono` is also its time after START on the host's clock."""
    return msgspec.structs.replace(end(rank, exit_code, mono, **more), host=host)


def killed_by_us(host: str, rank: int, mono: float = 100.2) -> WorkerEnd:
    return on(host, rank, -9, mono, sent="SIGKILL")


def evidence(host: str, *ends: WorkerEnd, **more: Any) -> AttemptEvidence:
    fields: dict[str, Any] = {"attempt": 0, "started_at": START, "noticed_at": NOTICED, **more}
    return AttemptEvidence(host=host, ends=ends, **fields)


def report(host: str, *ends: WorkerEnd, **more: Any) -> NodeReport:
    """`seen`: further fields of its evidence."""
    seen = more.pop("seen", {})
    fields: dict[str, Any] = {"attempt": 0, "state": NodeState.DEAD, "uncertainty_s": 0.001, **more}
    return NodeReport(node=f"{host}-0", evidence=evidence(host, *ends, **seen), **fields)


def lost(host: str, silent_s: float = 3.1, last: float = 96.9) -> LostNode:
    return LostNode(node=f"{host}-0", host=host, ranks=(), silent_s=silent_s, last_at=START + last)


def alarm(trouble: Trouble, host: str = "h1", about: str = "", at: float = 100.0) -> Alarm:
    about = f"{about}-0" if about else ""
    return Alarm(attempt=0, node=f"{host}-0", trouble=trouble, about=about, at=START + at)


def case(members: View, *reports: NodeReport, **more: Any) -> GroupCase:
    """`limits`: what differs from 1:9 and shrink."""
    limits = {"min_nodes": 1, "max_nodes": 9, **more.pop("limits", {})}
    fields: dict[str, Any] = {"proposer": PROPOSER, **more}
    return GroupCase(view=members, reports=reports, limits=NodeLimits(**limits), **fields)


def decided(
    one: GroupCase, history: tuple[PastAttempt, ...] = (), allowance: Allowance = TORCHRUN
) -> GroupRecord:
    return decide_group(one, history, allowance, diagnose, at=NOTICED)


# Any case that can be recorded

_hosts = [f"h{n}" for n in range(1, 6)]
_times = st.floats(0, 200) | st.sampled_from([99.999, 100.0, 100.001, 100.5])
_codes = st.sampled_from([0, 1, 3, -9, -11, -6, 117])
_outputs = st.sampled_from(["", "", "exception_rank1", "gloo_closed_by_peer", "gloo_timed_out"])


@st.composite
def _reports(draw: st.DrawFn, host: str, ranks: range) -> NodeReport:
    ends = [
        on(
            host,
            rank,
            draw(_codes),
            draw(_times),
            output=draw(_outputs) or None,
            sent=draw(st.sampled_from(["", "SIGKILL"])),
            step=draw(st.none() | st.integers(0, 200)),
        )
        for rank in ranks
        if draw(st.booleans())
    ]
    noticed = START + draw(_times)
    steps = st.none() | st.integers(0, 200)
    seen = evidence(
        host,
        *sorted(ends, key=lambda one: one.mono),
        noticed_at=noticed,
        still_running=tuple(set(ranks) - {one.rank for one in ends}),
        oom_kills=draw(st.sampled_from([0, 0, 1])),
        unkillable=draw(st.sampled_from([(), (), (77,)])),
        late_mismatch=draw(st.booleans()),
        furthest_step=draw(steps),
        first_step=draw(steps),
    )
    return NodeReport(
        attempt=draw(st.sampled_from([0, 0, 0, 0, 1])),
        node=f"{host}-0",
        state=draw(st.sampled_from([NodeState.DEAD, NodeState.DEAD, NodeState.DONE])),
        leaving=draw(st.sampled_from(["", "", "", "SIGTERM", "recycle"])),
        preempted=draw(st.sampled_from([False, False, False, True])),
        offset_s=draw(st.floats(-100, 100)),
        uncertainty_s=draw(st.floats(0, 0.5)),
        evidence=draw(st.sampled_from([seen, seen, seen, None])),
    )


@st.composite
def cases(draw: st.DrawFn) -> GroupCase:
    hosts = draw(st.lists(st.sampled_from(_hosts), min_size=1, max_size=4, unique=True))
    members = view(*hosts)
    silent = draw(st.lists(st.sampled_from(hosts), max_size=len(hosts) - 1, unique=True))
    reports = [
        draw(_reports(host, range(NPROC * n, NPROC * (n + 1))))
        for n, host in enumerate(hosts)
        if host not in silent or draw(st.booleans())
    ]
    newcomers = [*[f"new{n}" for n in range(3)], *hosts]
    names = draw(st.lists(st.sampled_from(newcomers), max_size=3))
    trouble = draw(st.none() | st.sampled_from(Trouble))
    least = draw(st.integers(1, 4))
    return GroupCase(
        proposer=f"{draw(st.sampled_from(hosts))}-0",
        view=members,
        reports=tuple(reports),
        lost=tuple(lost(host, 3.0, draw(_times)) for host in silent),
        joining=tuple(card(f"{name}-0") for name in names),
        alarm=trouble
        and alarm(
            trouble,
            draw(st.sampled_from(hosts)),
            draw(st.sampled_from(["", "gone", *newcomers])),
            draw(_times),
        ),
        waited_s=draw(st.sampled_from([0.0, 599.9, 600.0, 1e6])),
        limits=NodeLimits(
            min_nodes=least,
            max_nodes=draw(st.integers(max(least, len(hosts)), 6)),
            on_loss=draw(st.sampled_from(["shrink", "wait", "stop"])),
        ),
    )
