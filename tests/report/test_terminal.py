"""The report for a person: what its first line says, that it fits, and that it is safe."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.samples import RUN_ID, a_run, an_incident, fatal_incident
from resilient.model.diagnosis import EvidenceLine
from resilient.model.incident import Incident, IncidentState, Phases
from resilient.model.run import Run
from resilient.report.terminal import render

DIR = f"/home/someone/job/resilient-runs/{RUN_ID}"


def plain(run: Run, *incidents: Incident, width: int = 100, full: bool = False) -> str:
    return render(run, incidents, width=width, colour=False, run_dir=DIR, full=full)


def test_a_clean_run_needs_no_report() -> None:
    assert plain(a_run()) == ""


def test_recovered() -> None:
    text = plain(a_run(attempts=2, sentence="Finished, after 1 incident."), an_incident())
    first, *rest = text.splitlines()
    assert first == (
        "resilient-run: FINISHED after 1 incident, exit code 0: 0.07 s lost, 3 steps repeated"
    )
    said = "\n".join(rest)
    for words in (
        "Rank 1 was killed by SIGKILL at step 120",
        "worker_killed, rank 1 on nodeA",
        "all ranks restarted: 1 of 20",
        "0.07 s until training again, 3 steps lost (went on at step 118)",
        "warm (ranks 0, 1)",
        "rank 0 failed because of it",
        "| step 120 loss 2.30",
        f"{DIR}/nodes/nodeA-0a1b2c3d/attempt-0/1/stderr.log",
        "--nproc-per-node=2 train.py",
    ):
        assert words in said


def test_failed() -> None:
    run = a_run(exit_code=78, attempts=2, sentence="Rank 0 raised ValueError twice.")
    text = plain(run, an_incident(), fatal_incident(), width=120)
    assert text.splitlines()[0] == (
        "resilient-run: FAILED, exit code 78: Rank 0 raised ValueError twice. "
        "Do not requeue it: it would fail again."
    )
    # The last thing on the screen is what the program itself said last.
    assert text.rstrip().splitlines()[-1] == "  | ValueError: bad batch"
    last = text[text.index("-- incident 2") :]
    assert "the run was stopped: the same error" in last
    assert "came back" not in last


def test_stopped_by_a_signal_and_not_ended() -> None:
    assert plain(a_run(exit_code=-15)).startswith("resilient-run: FAILED, SIGTERM\n")
    first = plain(a_run(exit_code=None, ended_at=None), an_incident()).splitlines()[0]
    assert first.startswith("resilient-run: NOT ENDED: still going, or killed")


def test_says_what_is_not_known() -> None:
    vague = an_incident(
        confidence=0.3,
        class_="undetermined",
        steps_lost=None,
        warm_ranks=(),
        cold_why="RESILIENT_WARM_START=off",
        state=IncidentState.RESTARTING,
        phases=Phases(stopped_s=0.5),
        evidence=(EvidenceLine(source="output", text="Connection reset by peer"),),
    )
    text = plain(a_run(exit_code=1, off=("capture: off",), dropped_records=7), vague)
    for words in (
        "not certain (30%)",
        "| output: Connection reset by peer",
        "all ranks restarted, no sign of training since",
        "0.50 s so far, steps lost not known",
        "cold: RESILIENT_WARM_START=off",
        "off       capture: off",
        "7 lines of the records were lost",
    ):
        assert words in text


def test_counts_only_what_is_known() -> None:
    started = an_incident(2, steps_lost=None, phases=Phases(stopped_s=0.5, spawned_s=0.9))
    text = plain(a_run(), an_incident(), started)
    assert text.startswith("resilient-run: FINISHED after 2 incidents, exit code 0\n")
    assert "0.90 s until all ranks were started again, steps lost not known" in text


def test_marks_under_a_traceback_are_left_out() -> None:
    text = plain(a_run(), an_incident(tail=("    f(x)", "      ^~~^", "", "ValueError: x")))
    assert text.endswith("  |     f(x)\n  |\n  | ValueError: x\n")


def test_many_incidents_are_told_briefly_unless_asked_for() -> None:
    many = [an_incident(number) for number in range(1, 21)]
    brief = plain(a_run(attempts=21), *many)
    assert re.findall(r"^-- incident (\d+)", brief, re.M) == ["1", "18", "19", "20"]
    assert re.findall(r"^-- (\d+) ", brief, re.M) == [str(number) for number in range(2, 18)]
    assert len(brief.splitlines()) < 120
    full = plain(a_run(attempts=21), *many, full=True)
    assert len(re.findall(r"^-- incident", full, re.M)) == 20


@pytest.mark.parametrize("width", [40, 80, 120])
def test_fits(width: int) -> None:
    run = a_run(exit_code=1, sentence="漢字 " * 30, off=("x" * 300,), argv=("y" * 500,))
    text = plain(run, an_incident(tail=("z" * 400, "漢" * 90)), fatal_incident(), width=width)
    for line in text.splitlines():
        wide = sum(2 if char > "\u2e80" else 1 for char in line)
        assert wide <= width or DIR in line, line  # paths stay whole: they get copied
        assert line == line.rstrip()


HOSTILE = "[red]x[/red] \x1b[2J\x1b]0;owned\x07 :smile: \r\x9b31m \u202e end"


def test_hostile_text_is_shown_as_text() -> None:
    bad = an_incident(sentence=HOSTILE, host=HOSTILE, reason=HOSTILE, tail=(HOSTILE,), log=HOSTILE)
    for colour in (False, True):
        text = render(a_run(sentence=HOSTILE), [bad], width=100, colour=colour, run_dir=HOSTILE)
        known = re.sub(r"\x1b\[[0-9;]*m", "", text) if colour else text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", known)
        assert " end" in known
    assert "[bold]b[/bold] :smile:" in plain(a_run(), an_incident(tail=("[bold]b[/bold] :smile:",)))


def test_colour_only_when_asked_for() -> None:
    assert "\x1b[" not in plain(a_run(), an_incident())
    coloured = render(a_run(), [an_incident()], width=100, colour=True, run_dir=DIR)
    assert "\x1b[1;32mresilient-run: FINISHED" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain(a_run(), an_incident())


TEXT = st.text(max_size=60)


@settings(max_examples=40, deadline=None)
@given(TEXT, TEXT, st.integers(0, 200), st.sampled_from([None, 0, 1, -9, 70, 255]))
def test_never_raises(sentence: str, tail: str, width: int, code: int | None) -> None:
    run = a_run(sentence=sentence, exit_code=code, argv=(tail,), nodes=(), world_size=0)
    incident = an_incident(sentence=sentence, tail=(tail,), first_rank=None, host="", at=1e18)
    render(run, [incident], width=width, colour=False).encode()
