"""Deciding again from records: the same, or a difference that names the field."""

from pathlib import Path

import msgspec

from report.decided import KILLED, RAISED, decided
from resilient.decide.judge import remember
from resilient.model.decision import DecisionRecord
from resilient.report.evidence_words import evidence_lines
from resilient.report.page import Page
from resilient.report.read import Line
from resilient.report.replay import as_record, put_replay, replay


def once_more(record: DecisionRecord) -> DecisionRecord:
    """As it comes back from the file."""
    return msgspec.json.decode(msgspec.json.encode(record), type=DecisionRecord)


def lines(*records: DecisionRecord) -> list[Line[DecisionRecord]]:
    return [
        Line(Path("decisions.jsonl"), number, once_more(one)) for number, one in enumerate(records)
    ]


def test_the_same_again() -> None:
    first = decided()
    history = (remember(first.evidence, first.diagnosis, first.decision),)
    done = replay(lines(first, decided(RAISED, history)))
    assert [one.differences for one in done] == [(), ()]
    assert [as_record(one)["same"] for one in done] == [True, True]


def test_differences_name_the_field() -> None:
    record = decided()
    changed = msgspec.structs.replace(
        record,
        diagnosis=msgspec.structs.replace(record.diagnosis, first_rank=0),
        decision=msgspec.structs.replace(record.decision, exit_code=3),
    )
    (done,) = replay(lines(changed))
    assert [(one.field, one.recorded) for one in done.differences] == [
        ("diagnosis.first_rank", 0),
        ("decision.exit_code", 3),
    ]
    assert as_record(done)["differences"][0] == {
        "field": "diagnosis.first_rank",
        "recorded": 0,
        "again": record.diagnosis.first_rank,
    }
    page = Page(width=80, colour=False)
    put_replay(page, done)
    assert "diagnosis.first_rank differs (decisions.jsonl:0)" in page.text()
    assert "    - 0\n" in page.text()


def test_evidence_in_words() -> None:
    assert evidence_lines(KILLED) == [
        "attempt 0 on nodeA, noticed 7.00 s after its start",
        "rank 1 (pid 101) ended: SIGKILL, at step 120",
        "rank 0 (pid 100) ended: SIGTERM, at step 120, 0.02 s after the first, "
        "we had sent SIGTERM, we had cut its connections",
        "it had come to step 120, from step 0",
    ]
    said = "\n".join(evidence_lines(RAISED))
    for words in (
        "exit code 1, at step 120, it left ValueError: bad batch (error_file)",
        "rank 0 still ran",
        "killed for memory: +1",
        "could not reproduce a cold start",
        "cannot be killed: pid 77",
    ):
        assert words in said
