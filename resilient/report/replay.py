"""Decides again from recorded evidence and compares: a report that cannot be replayed is wrong."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from resilient.decide.group import decide_group
from resilient.decide.judge import judge
from resilient.diagnose.process_evidence import diagnose
from resilient.model.decision import DecisionRecord
from resilient.model.membership import Change, GroupRecord
from resilient.report.evidence_words import evidence_lines
from resilient.report.page import Page
from resilient.report.read import Line
from resilient.report.text import moment, ranks

_COMPARED = ("evidence", "diagnosis", "decision", "change")  # where a record has them


@dataclass(frozen=True)
class Difference:
    """One field that comes out otherwise than it was recorded."""

    field: str  # e.g. "diagnosis.class"
    recorded: Any  # plain JSON values
    again: Any


@dataclass(frozen=True)
class Replay:
    """One recorded decision, and where deciding again departs from it."""

    file: Path
    line: int
    record: DecisionRecord
    differences: tuple[Difference, ...]


def replay(lines: Iterable[Line[DecisionRecord] | Line[GroupRecord]]) -> tuple[Replay, ...]:
    """Judges each recorded piece of evidence again. Never raises for what the judge does."""
    return tuple(
        Replay(line.file, line.number, line.record, _differences(line.record)) for line in lines
    )


def _differences(record: DecisionRecord) -> tuple[Difference, ...]:
    try:
        again = _again(record)
    except Exception as error:  # the judge is total: that it raised is the finding
        return (Difference("judge", "a decision", f"{type(error).__name__}: {error}"),)
    names = [name for name in _COMPARED if getattr(again, name, None) is not None]
    return tuple(
        difference
        for name in names
        for difference in _compare(name, getattr(record, name), getattr(again, name))
    )


def _again(record: DecisionRecord) -> DecisionRecord:
    """What is decided now from what was known then."""
    history, allowance = record.history, record.allowance
    if isinstance(record, GroupRecord) and record.case is not None:
        return decide_group(record.case, history, allowance, diagnose, at=record.at)
    diagnosis, decision = judge(record.evidence, history, allowance, diagnose)
    return msgspec.structs.replace(record, diagnosis=diagnosis, decision=decision)


def _compare(name: str, recorded: Any, again: Any) -> list[Difference]:
    if recorded is None:
        return [Difference(name, None, msgspec.to_builtins(again))]
    old, new = msgspec.to_builtins(recorded), msgspec.to_builtins(again)
    return [
        Difference(f"{name}.{field}", old.get(field), new.get(field))
        for field in {**old, **new}
        if old.get(field) != new.get(field)
    ]


def put_replay(page: Page, one: Replay) -> None:
    """evidence → diagnosis → decision of one record, then the differences if there are any."""
    record = one.record
    diagnosis, decision = record.diagnosis, record.decision
    page.line(f"attempt {record.evidence.attempt}, {moment(record.at, date=True)}", "bold")
    for number, words in enumerate(evidence_lines(record.evidence)):
        page.line(words, prefix="            - " if number else "  evidence  - ")
    for past in record.history:
        page.line(
            f"attempt {past.attempt}: {past.diagnosis.class_.value} in {past.phase}, charged to "
            f"{past.budget.value}",
            prefix="  before    - ",
        )
    page.line(
        f"{diagnosis.class_.value} ({diagnosis.confidence:.0%}): {diagnosis.sentence}"
        + (f" Because of it: {ranks(diagnosis.victims)}." if diagnosis.victims else ""),
        prefix="  diagnosis   ",
    )
    charged = f", charged to {decision.budget.value}" if decision.action.value == "restart" else ""
    page.line(f"{decision.action.value}{charged}: {decision.reason}", prefix="  decision    ")
    change = _change(record)
    if change is not None:
        page.line(f"{change.verdict.value}: {change.reason}", prefix="  nodes       ")
    if not one.differences:
        page.line("the same", "green", prefix="  again       ")
    for difference in one.differences:
        page.line(
            f"{difference.field} differs ({one.file.name}:{one.line})",
            "bold red",
            prefix="  again       ",
        )
        page.line(f"- {difference.recorded}", "red", prefix="    ")
        page.line(f"+ {difference.again}", "green", prefix="    ")


def _change(record: DecisionRecord) -> Change | None:
    return record.change if isinstance(record, GroupRecord) else None


def as_record(one: Replay) -> dict[str, Any]:
    """For --json; "nodes" is there for a decision of several."""
    change = _change(one.record)
    nodes = (
        {
            "verdict": change.verdict.value,
            "reason": change.reason,
            "remove": list(change.remove),
            "add": [card.node for card in change.add],
        }
        if change is not None
        else None
    )
    return {
        "file": str(one.file),
        "line": one.line,
        "attempt": one.record.evidence.attempt,
        "at": one.record.at,
        "evidence": evidence_lines(one.record.evidence),
        "class": one.record.diagnosis.class_.value,
        "first_rank": one.record.diagnosis.first_rank,
        "sentence": one.record.diagnosis.sentence,
        "action": one.record.decision.action.value,
        "reason": one.record.decision.reason,
        **({} if nodes is None else {"nodes": nodes}),
        "same": not one.differences,
        "differences": [
            {"field": two.field, "recorded": two.recorded, "again": two.again}
            for two in one.differences
        ],
    }
