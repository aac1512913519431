"""Runs every selected combination under both launchers ahead of time, two at once, and prints a
table of the result at the end (as JSON too, into the file that DIFFERENTIAL_JSON names)."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree

import pytest

from differential.case import Case
from differential.compare import Difference, warm_ranks
from differential.execute import RESILIENT, TORCHRUN, Result, execute, programs

AT_ONCE = 2


@dataclass(frozen=True)
class Row:
    """Whether a combination was the same in attempt 0 and 1, and what differed on purpose."""

    cold: bool
    again: bool | None  # None: it has no attempt 1
    warm: bool
    known: list[str]


TABLE: dict[str, Row] = {}


class Runs:
    """Both results of each case; torchrun's and ours are made once in a session."""

    def __init__(self, cases: list[Case]) -> None:
        programs()
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._futures = {case.name: self._pool.submit(both, case) for case in cases}

    def get(self, case: Case) -> tuple[Result, Result]:
        return self._futures[case.name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def both(case: Case) -> tuple[Result, Result]:
    return execute(case, TORCHRUN), execute(case, RESILIENT)


@pytest.fixture(scope="session", autouse=True)
def programs_removed() -> Iterator[None]:
    yield
    rmtree(programs(), ignore_errors=True)


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    selected = [
        item.callspec.params.get("case")
        for item in request.session.items
        if hasattr(item, "callspec")
    ]
    made = Runs([case for case in selected if isinstance(case, Case)])
    yield made
    made.close()


def note(case: Case, found: list[Difference], ours: Result) -> None:
    """One row of the table."""
    bad = {d.attempt for d in found if not d.reason}
    TABLE[case.name] = Row(
        cold=not bad & {None, 0},
        again=not bad & {None, 1} if case.again else None,
        warm=bool(warm_ranks(ours)),
        known=sorted({d.reason for d in found if d.reason}),
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TABLE:
        return
    say, words = terminalreporter.line, {True: "same", False: "DIFFERS", None: "-"}
    terminalreporter.section("the same under torchrun and under resilient-run")
    say(f"{'combination':<36}{'attempt 0':<12}{'attempt 1':<12}which was")
    for name, row in TABLE.items():
        kind = "" if row.again is None else "warm" if row.warm else "cold"
        say(f"{name:<36}{words[row.cold]:<12}{words[row.again]:<12}{kind}".rstrip())
    say("differences that are meant to be there:")
    for reason in sorted({reason for row in TABLE.values() for reason in row.known}):
        say(f"  {reason}")
    say(f"{len(TABLE)} combinations, {sum(r.warm for r in TABLE.values())} of them warm as well")
    if path := os.environ.get("DIFFERENTIAL_JSON"):
        rows = {name: asdict(row) for name, row in TABLE.items()}
        Path(path).write_text(json.dumps(rows, indent=1))
