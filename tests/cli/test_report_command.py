"""`resilient report` as people and scripts use it."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from report.samples import NODE, RUN_ID, a_run, an_incident, fatal_incident, write_run

from cli.tool import COMMAND, environment, resilient

KEYS = {"schema", "run_id", "attempts", "exit_code", "transport", "incidents"}
INCIDENT_KEYS = {
    *("number", "class", "first_rank", "host", "sentence", "action", "steps_lost", "phases")
}
PHASES = {"noticed_s", "stopped_s", "rendezvous_s", "spawned_s", "first_collective_s"}


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    run = a_run(exit_code=1, attempts=2, sentence="Rank 0 raised ValueError.")
    return write_run(tmp_path / "run", run, (an_incident(), fatal_incident()))


def test_exit_codes_and_the_default_directory(tmp_path: Path) -> None:
    runs = tmp_path / "resilient-runs"
    for name, code, expected in (("good", 0, 0), ("bad", 1, 1), ("going", None, 3)):
        write_run(runs / name, a_run(exit_code=code))
        link = runs / "latest"
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        done = resilient("report", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (expected, "")
        assert done.stdout.startswith("resilient-run: ")
    assert resilient("report", cwd=runs / "good").returncode == 2
    assert resilient("report", cwd=tmp_path.parent, RESILIENT_RUN_DIR=str(runs)).returncode == 3


def test_a_clean_run_is_told_too(tmp_path: Path) -> None:
    done = resilient("report", write_run(tmp_path / "run", a_run()))
    assert done.stdout == "resilient-run: FINISHED, exit code 0\n"


def test_json_keys(failed: Path) -> None:
    done = resilient("report", failed, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert set(found) >= KEYS
    assert (found["schema"], found["run_id"], found["attempts"]) == (1, RUN_ID, 2)
    assert (found["exit_code"], found["transport"]) == (1, None)
    first, second = found["incidents"]
    assert set(first) >= INCIDENT_KEYS
    assert set(first["phases"]) >= PHASES
    assert (first["class"], first["first_rank"], first["steps_lost"]) == ("worker_killed", 1, 3)
    assert first["phases"]["stopped_s"] == 0.031
    assert (second["number"], second["action"], second["steps_lost"]) == (2, "stop", None)
    assert second["phases"]["first_collective_s"] is None


def test_plain_text_into_a_pipe(failed: Path) -> None:
    done = resilient("report", failed, COLUMNS="80")
    assert done.returncode == 1
    assert done.stdout.startswith("resilient-run: FAILED, exit code 1: Rank 0 raised ValueError.\n")
    assert "\x1b" not in done.stdout
    assert "the last it wrote (rank 0 on nodeA):" in done.stdout


def on_a_terminal(*args: object, **extra: str) -> str:
    parent, child = pty.openpty()
    with subprocess.Popen([*COMMAND, *map(str, args)], stdout=child, env=environment(**extra)):
        os.close(child)
        shown = b""
        while True:
            try:
                data = os.read(parent, 65536)
            except OSError:  # the last one closed it
                break
            if not data:
                break
            shown += data
    os.close(parent)
    return shown.decode()


def test_colours_on_a_terminal(failed: Path) -> None:
    assert "\x1b[1;31mresilient-run: FAILED" in on_a_terminal("report", failed)
    assert "\x1b" not in on_a_terminal("report", failed, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal("report", failed, TERM="dumb")


def test_a_stream_that_cannot_say_it_all(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", a_run(exit_code=1, sentence="grün 漢字"))
    done = resilient("report", run, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, "")
    assert "gr?n" in done.stdout


def test_a_reader_that_leaves_and_a_full_disk(failed: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    for out, code, said in ((writing, 141, ""), (os.open("/dev/full", os.O_WRONLY), 3, "No space")):
        done = subprocess.run(
            [*COMMAND, "report", str(failed)],
            stdout=out,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
            check=False,
        )
        os.close(out)
        assert done.returncode == code
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == bool(said)


def test_damage_is_misuse(failed: Path) -> None:
    (failed / "run.json").write_text("{")
    done = resilient("report", failed)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"resilient report: {failed.resolve()}/run.json: ")
    done = resilient("report", failed, "--json")
    assert done.returncode == 2
    assert "run.json" in json.loads(done.stdout)["error"]


def test_reports_do_not_read_what_they_do_not_need(failed: Path) -> None:
    (failed / "nodes" / NODE / "events.jsonl").write_text("damaged\n")
    assert resilient("report", failed).returncode == 1
