"""Runs every selected combination under both launchers ahead of time, two at once, and prints a
table of the result at the end (as JSON too, into the file that DIFFERENTIAL_JSON names)."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

import pytest

from differential.case import Case
from differential.compare import Difference, warm_ranks
from differential.execute import RESILIENT, TORCHRUN, Result, execute, programs

AT_ONCE = 2
TABLE: dict[str, dict[str, object]] = {}


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
    bad = [d for d in found if not d.reason]
    TABLE[case.name] = {
        "cold": not [d for d in bad if d.attempt in (None, 0)],
        "again": not [d for d in bad if d.attempt in (None, 1)] if case.again else None,
        "warm": bool(warm_ranks(ours)),
        "known": sorted({d.reason for d in found if d.reason}),
    }


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TABLE:
        return
    words = {True: "same", False: "DIFFERS", None: "-"}
    terminalreporter.section("the same under torchrun and under resilient-run")
    terminalreporter.line(f"{'combination':<36}{'attempt 0':<12}{'attempt 1':<12}which was")
    for name, row in TABLE.items():
        kind = "" if row["again"] is None else "warm" if row["warm"] else "cold"
        line = f"{name:<36}{words[row['cold']]:<12}{words[row['again']]:<12}{kind}"  # type: ignore[index]
        terminalreporter.line(line)
    terminalreporter.line("differences that are meant to be there:")
    for reason in sorted({reason for row in TABLE.values() for reason in row["known"]}):  # type: ignore[attr-defined]
        terminalreporter.line(f"  {reason}")
    warm = sum(bool(row["warm"]) for row in TABLE.values())
    terminalreporter.line(f"{len(TABLE)} combinations, {warm} of them warm as well")
    if path := os.environ.get("DIFFERENTIAL_JSON"):
        Path(path).write_text(json.dumps(TABLE, indent=1))
