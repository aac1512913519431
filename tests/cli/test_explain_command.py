"""`resilient explain`: agrees with what was recorded, and fails when it does not."""

import json
from pathlib import Path

import msgspec
import pytest
from report.decided import RAISED, decided
from report.samples import NODE, a_run, an_incident, fatal_incident, write_run

from cli.tool import resilient
from resilient.decide.judge import remember


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = write_run(tmp_path / "run", a_run(exit_code=1), (an_incident(), fatal_incident()))
    first = decided()
    second = decided(RAISED, (remember(first.evidence, first.diagnosis, first.decision),))
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in (first, second))
    (folder / "nodes" / NODE / "decisions.jsonl").write_bytes(lines)
    return folder


def tamper(folder: Path) -> None:
    """Makes the second recorded decision one that the judge would not take."""
    file = folder / "nodes" / NODE / "decisions.jsonl"
    first, second = file.read_text().splitlines()
    record = json.loads(second)
    record["decision"]["action"] = {"stop": "restart", "restart": "stop"}[
        record["decision"]["action"]
    ]
    file.write_text(f"{first}\n{json.dumps(record)}\n")


def test_agrees(run: Path) -> None:
    done = resilient("explain", run)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("2 decisions, decided again: the same.\n")
    first = decided()
    flat = " ".join(done.stdout.split())
    assert "rank 1 (pid 101) ended: SIGKILL, at step 120" in flat
    assert " ".join(first.diagnosis.sentence.split()) in flat
    assert " ".join(first.decision.reason.split()) in flat
    assert "\x1b" not in done.stdout
    found = json.loads(resilient("explain", run, "--json").stdout)
    assert (found["schema"], found["same"]) == (1, True)
    assert [one["attempt"] for one in found["decisions"]] == [0, 1]


def test_disagrees(run: Path) -> None:
    tamper(run)
    done = resilient("explain", run)
    assert done.returncode == 1
    assert done.stdout.startswith("1 of 2 decisions come out otherwise.\n")
    assert "decision.action differs (decisions.jsonl:2)" in done.stdout
    assert "    - restart\n" in done.stdout or "    - stop\n" in done.stdout
    found = json.loads(resilient("explain", run, "--json").stdout)
    assert found["same"] is False
    assert found["decisions"][1]["differences"][0]["field"] == "decision.action"


def test_a_killed_writer_and_a_damaged_file(run: Path) -> None:
    file = run / "nodes" / NODE / "decisions.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    done = resilient("explain", run)
    assert done.returncode == 0
    assert f"{file.name}:2: the last line is cut off" in done.stderr
    file.write_bytes(b"{}\n" + whole)
    done = resilient("explain", run)
    assert (done.returncode, done.stdout) == (2, "")
    assert "decisions.jsonl:1: this is no DecisionRecord record" in done.stderr
    assert "sed -i 1d" in done.stderr


def test_nothing_to_decide_from(tmp_path: Path) -> None:
    clean = write_run(tmp_path / "clean", a_run())
    done = resilient("explain", clean)
    assert (done.returncode, done.stdout) == (
        0,
        "No decision was recorded: nothing had to be decided.\n",
    )
    lost = write_run(tmp_path / "lost", a_run(exit_code=1), (an_incident(),))
    assert resilient("explain", lost).returncode == 3
    assert json.loads(resilient("explain", lost, "--json").stdout)["same"] is None
