"""Decisions of several nodes: read, in words, and decided again."""

import json
from pathlib import Path

import msgspec
import pytest
from decide.groups import alarm, card, case, decided, killed_by_us, lost, on, report, view

from report import decided as single
from report.samples import NODE, a_run, write_run
from resilient.model.evidence import NodeTroubleKind
from resilient.model.membership import GroupCase, GroupRecord, NodeLimits, Trouble
from resilient.report.evidence_words import evidence_lines
from resilient.report.page import Page
from resilient.report.read import load
from resilient.report.replay import Replay, as_record, put_replay, replay

LOST = case(
    view("h1", "h2", "h3"),
    report("h1", killed_by_us("h1", 0), seen={"furthest_step": 120, "first_step": 1}),
    report("h3", on("h3", 4, 1, 97.0, output="gloo_closed_by_peer"), uncertainty_s=0.0004),
    lost=(lost("h2"),),
    joining=(card("s-0"),),
    alarm=alarm(Trouble.NODE_LOST, about="h2"),
)


def run_with(tmp_path: Path, *records: msgspec.Struct) -> Path:
    folder = write_run(tmp_path / "run", a_run())
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    (folder / "nodes" / NODE / "decisions.jsonl").write_bytes(lines)
    return folder


def replayed(tmp_path: Path, record: GroupRecord) -> Replay:
    (found,) = replay(load(run_with(tmp_path, record)).decisions)
    return found


def shown(one: Replay) -> str:
    page = Page(width=100, colour=False)
    put_replay(page, one)
    return " ".join(page.text().split())


def test_the_same_again(tmp_path: Path) -> None:
    found = replayed(tmp_path, decided(LOST))
    assert found.differences == ()
    text = shown(found)
    for words in (
        "attempt 0 on 3 nodes, as h1 saw it, noticed 1 min 40 s after its start",
        "node h2 (ranks 2, 3) fell silent, no heartbeat for 3.10 s, and all were stopped for it",
        "node s waited to be taken in",
        "rank 4 (pid 4004 on h3) ended: exit code 1",
        "rank 0 (pid 4000 on h1) ended: SIGKILL",
        "the nodes' clocks are known to within 1.0 ms",
        "node_lost (90%): Node h2 (ranks 2 and 3) fell silent",
        "Because of it: rank 4.",
        "restart, charged to infrastructure",
        "nodes go: 3 nodes; lost: h2; joining: s",
        "again the same",
    ):
        assert words in text
    data = json.loads(json.dumps(as_record(found)))
    assert data["same"] is True
    assert data["nodes"] == {
        "verdict": "go",
        "reason": "3 nodes; lost: h2; joining: s",
        "remove": ["h2-0"],
        "add": ["s-0"],
    }


def test_records_of_one_node_and_of_several_in_one_file(tmp_path: Path) -> None:
    folder = load(run_with(tmp_path, single.decided(), decided(LOST)))
    assert [line.record.case is None for line in folder.decisions] == [False, True]  # by time
    done = replay(folder.decisions)
    assert [one.differences for one in done] == [(), ()]
    assert ["nodes" in as_record(one) for one in done] == [True, False]
    assert " nodes " not in shown(done[1])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"change": None}, "change"),
        ({"change": {"remove": ()}}, "change.remove"),
        ({"decision": {"exit_code": 3}}, "decision.exit_code"),
        ({"diagnosis": {"first_rank": 0}}, "diagnosis.first_rank"),
        ({"evidence": {"oom_kills": 9}}, "evidence.oom_kills"),
    ],
)
def test_differences_name_the_field(
    tmp_path: Path, changes: dict[str, dict[str, object] | None], field: str
) -> None:
    record = decided(LOST)
    ((name, fields),) = changes.items()
    value = None if fields is None else msgspec.structs.replace(getattr(record, name), **fields)
    found = replayed(tmp_path, msgspec.structs.replace(record, **{name: value}))
    assert [one.field for one in found.differences] == [field]
    assert f"{field} differs (decisions.jsonl:1)" in shown(found)


def test_another_case_is_decided_otherwise(tmp_path: Path) -> None:
    stop = NodeLimits(min_nodes=1, max_nodes=9, on_loss="stop")
    other = msgspec.structs.replace(LOST, limits=stop)
    found = replayed(tmp_path, msgspec.structs.replace(decided(LOST), case=other))
    assert "change.verdict" in [one.field for one in found.differences]


def test_a_clock_that_is_not_known() -> None:
    unknown = report("h3", uncertainty_s=86400.0)
    one = msgspec.structs.replace(LOST, reports=(LOST.reports[0], unknown))
    assert "the nodes' clocks are not all known" in evidence_lines(decided(one).evidence)


def many(nodes: int) -> GroupCase:
    reports = [
        report(f"h{n}", killed_by_us(f"h{n}", 2 * n), killed_by_us(f"h{n}", 2 * n + 1))
        for n in range(nodes - 20)
    ]
    dead = on("h0", 0, 1, 99.0, output="gloo_closed_by_peer")
    reports[0] = report("h0", killed_by_us("h0", 1, 98.0), dead)
    silent = tuple(lost(f"h{n}") for n in range(nodes - 20, nodes))
    members = view(*(f"h{n}" for n in range(nodes)))
    return case(members, *reports, lost=silent, proposer="h0-0")


def test_a_large_group_is_told_briefly() -> None:
    lines = evidence_lines(decided(many(100)).evidence)
    assert len(lines) < 40
    assert "and 12 more nodes like these" in lines
    assert "144 more workers ended; we had stopped 144 of them" in lines
    ends = [line for line in lines if " ended: " in line]
    assert ends[0].startswith("rank 0 (pid 4000 on h0) ended: exit code 1")


@pytest.mark.parametrize("kind", NodeTroubleKind)
def test_every_trouble_has_words(kind: NodeTroubleKind) -> None:
    record = decided(LOST)
    one = msgspec.structs.replace(record.evidence.nodes[0], kind=kind, why="SIGTERM")
    said = evidence_lines(msgspec.structs.replace(record.evidence, nodes=(one,)))
    assert said[1].startswith("node h2 (ranks 2, 3) ")
    assert "SIGTERM" in said[1]
