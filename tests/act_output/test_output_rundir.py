"""The run directory: where it is, what is in it, and what a bad disk may cost."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from output_kit import (
    Job,
    agent,
    alive,
    eventually,
    ext4,
    freeze,
    logs,
    mounted,
    run_agent,
    thaw,
)

root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems: needs root")
TALK = "import os\nfor n in range(200): os.write(1, b'%d\\n' % n)"


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def test_private_directory_with_a_link_beside_it(tmp_path: Path) -> None:
    job = Job(tmp_path / "runs/first")
    assert job.folder() == tmp_path / "runs/first"
    job.start(TALK, console=False, attempt=3, rank=5)
    job.finish(attempt=3)
    made = [path for path in (tmp_path / "runs/first").rglob("*") if path.is_dir()]
    assert {path.stat().st_mode & 0o777 for path in [tmp_path / "runs/first", *made]} == {0o700}
    assert os.readlink(tmp_path / "runs/latest") == "first"
    assert list(logs(job.folder(), rank=5, attempt=3)) == ["stdout.log"]
    again = Job(tmp_path / "runs/second")
    again.folder()
    again.scribe.close()
    assert os.readlink(tmp_path / "runs/latest") == "second"


def test_latest_that_is_no_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    job = Job(tmp_path / "run")
    job.folder()
    job.scribe.close()
    assert (tmp_path / "latest").is_dir() and not (tmp_path / "latest").is_symlink()


def test_relative_candidate_is_taken_from_the_agents_directory(tmp_path: Path) -> None:
    with agent("Job('here').folder()", cwd=tmp_path) as process:
        assert process.wait(60) == 0
    assert (tmp_path / "here/nodes/node").is_dir()


def test_directory_of_another_run_gets_a_folder_for_this_one(tmp_path: Path) -> None:
    place = tmp_path / "run"
    for run_id, expected in (("one", place), ("two", place / "two"), ("one", place)):
        job = Job(place, run_id=run_id)
        assert job.folder() == expected
        job.scribe.write("run.json", json.dumps({"run_id": run_id}).encode())
        job.scribe.close()
    assert os.readlink(place / "latest") == "two"


def test_unwritable_candidates_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    job = Job("/proc/nowhere/run", tmp_path / "file", tmp_path / "file/run", tmp_path / "good")
    assert job.folder() == tmp_path / "good"
    job.scribe.close()
    assert len([note for note in job.notes if "cannot write the run directory" in note]) == 3


def test_without_any_directory_output_is_still_shown() -> None:
    code = f"""
job = Job("/proc/nowhere")
for n in range(1000):
    job.scribe.record("events", b"x" * 1000)
assert job.pump(lambda: job.scribe.dropped() == 1000)
job.start({TALK!r})
assert job.finish() == [0]
assert job.scribe.run_dir is None
assert any("console only" in note for note in job.notes), job.notes
"""
    status, out, err = run_agent(code)
    assert (status, err) == (0, b"")
    assert out == b"".join(b"%d\n" % n for n in range(200))


def test_somebody_elses_directory_in_a_shared_place_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (tmp_path / "elsewhere").mkdir()
    (shared / "trap").symlink_to(tmp_path / "elsewhere")
    job = Job(shared / "trap", tmp_path / "good")
    assert job.folder() == tmp_path / "good"
    job.scribe.close()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_records_from_before_the_directory_was_known_are_kept(tmp_path: Path) -> None:
    job = Job()
    job.scribe.record("events", b"first")
    job.start(TALK, console=False)
    job.wait()
    job.scribe.open_run([str(tmp_path / "run")], run_id="run", node="node")
    job.scribe.record("events", b"second\n")
    job.scribe.record("decisions", b"third")
    job.finish()
    node = tmp_path / "run/nodes/node"
    assert lines(node / "events.jsonl") == [b"first", b"second"]
    assert lines(node / "decisions.jsonl") == [b"third"]
    assert logs(tmp_path / "run")["stdout.log"].count(b"\n") == 200
    assert job.scribe.dropped() == 0


def test_many_records_and_large_files_arrive_whole(tmp_path: Path) -> None:
    job = Job(tmp_path / "run")
    page = os.urandom(3 << 20)
    for n in range(5000):
        job.scribe.record("events", json.dumps({"n": n, "pad": "x" * 100}).encode())
    job.scribe.write("incidents/0001/report.html", page)
    job.scribe.close()
    events = [json.loads(line) for line in lines(tmp_path / "run/nodes/node/events.jsonl")]
    assert [event["n"] for event in events] == list(range(5000))
    assert (tmp_path / "run/incidents/0001/report.html").read_bytes() == page
    assert [p.name for p in (tmp_path / "run/incidents/0001").iterdir()] == ["report.html"]
    assert job.scribe.dropped() == 0


def test_paths_stay_inside(tmp_path: Path) -> None:
    job = Job(tmp_path / "run")
    for relative in ("../x", "/x", "a/../../x", ""):
        with pytest.raises(ValueError):
            job.scribe.write(relative, b"")
    with pytest.raises(ValueError):
        job.scribe.record("../events", b"")
    job.scribe.close()


def test_log_of_a_flood_keeps_its_head_and_its_tail() -> None:
    """200 MB as fast as a worker can: nothing is missing where something is kept.

    In memory: what a slow disk may cost is the subject of other tests.
    """
    worker = """
import os
for n in range(2000):
    view = memoryview(b"%09d:" % n + b"x" * 99_990)
    while view:
        view = view[os.write(1, view):]
"""
    everything = b"".join(b"%09d:" % n + b"x" * 99_990 for n in range(2000))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shm:
        folder = Path(shm, "run")
        job = Job(folder)
        job.folder()
        job.start(worker, console=False, stderr=False)
        assert job.finish() == [0]
        found = dict(logs(folder))
    assert found.pop("stdout.log") == everything[: 4 << 20]
    assert len(found) == 4
    tail = b"".join(found.values())
    assert (45 << 20) < len(tail) <= (60 << 20)
    assert everything.endswith(tail)
    assert not job.notes


def test_log_bounds_can_be_chosen(tmp_path: Path) -> None:
    job = Job()
    candidates = [str(tmp_path / "run")]
    job.scribe.open_run(candidates, run_id="run", node="node", head_mib=1, tail_mib=4)
    job.start("import os\nfor _ in range(160): os.write(1, b'x' * 65536)", console=False)
    job.finish()
    assert sorted(map(len, logs(tmp_path / "run").values())) == [1 << 20] * 5


@pytest.mark.root
@root
def test_full_disk_is_no_place_for_a_run(tmp_path: Path) -> None:
    with mounted("-t", "tmpfs", "-o", "size=1m", "none", at=tmp_path / "small") as disk:
        with (disk / "ballast").open("wb") as file:
            file.write(b"x" * (1 << 20))
        job = Job(disk / "run", tmp_path / "good")
        assert job.folder() == tmp_path / "good"
        assert any("space" in note for note in job.notes)
        job.scribe.close()
        assert not (disk / "run").exists()


@pytest.mark.root
@root
def test_disk_that_fills_up_costs_records_but_no_output(tmp_path: Path) -> None:
    code = """
job = Job(sys.argv[1])
job.folder()
worker = "import os\\nfor _ in range(400): os.write(1, b'x' * 10000)"
job.start(worker, stderr=False)
assert job.wait() == [0]
assert job.scribe.drain(0, timeout_s=30)
for n in range(50):
    job.scribe.record("events", b"y" * 100)
job.scribe.write("run.json", b"z" * 5000)
assert job.pump(lambda: job.scribe.dropped() == 51), job.scribe.dropped()
print(*job.notes, sep="\\n", file=sys.stderr)
job.scribe.close()
"""
    with mounted("-t", "tmpfs", "-o", "size=1m", "none", at=tmp_path / "small") as disk:
        status, out, err = run_agent(code, disk / "run")
        assert (status, out) == (0, b"x" * 4_000_000), err
        assert b"bytes are missing in worker logs" in err
        assert b"records are missing" in err
        assert not list((disk / "run").glob(".run.json*"))


@pytest.mark.root
@root
def test_frozen_disk_is_passed_over(tmp_path: Path) -> None:
    with ext4(tmp_path) as disk:
        freeze(disk)
        job = Job(disk / "run", tmp_path / "good")
        assert job.folder() == tmp_path / "good"
        assert any("no answer from the disk" in note for note in job.notes)
        job.start(TALK, console=False)
        assert job.wait() == [0]
        thaw(disk)
        assert eventually(lambda: not (disk / "run").exists(), 10)
        job.finish()
    assert lines(tmp_path / "good/nodes/node/attempt-0/0/stdout.log")[-1] == b"199"


@pytest.mark.root
@root
def test_only_a_frozen_disk(tmp_path: Path) -> None:
    code = f"""
job = Job(sys.argv[1])
job.start({TALK!r})
assert job.finish() == [0]
assert job.scribe.run_dir is None
"""
    with ext4(tmp_path) as disk:
        freeze(disk)
        status, out, err = run_agent(code, disk / "run")
        assert (status, err) == (0, b"")
        assert out == b"".join(b"%d\n" % n for n in range(200))


@pytest.mark.root
@root
def test_disk_that_freezes_in_mid_run_blocks_nobody(tmp_path: Path) -> None:
    """Not the workers, not the console, not the agent's end, nor whoever reads the console."""
    code = """
import subprocess
job = Job(sys.argv[1])
job.folder()
subprocess.run(["fsfreeze", "-f", sys.argv[2]], check=True)
print(job.scribe.pid, file=sys.stderr)
worker = "import os\\nfor _ in range(3000): os.write(1, b'x' * 10000)"
job.start(worker, stderr=False)
for n in range(20000):
    job.scribe.record("events", b"y" * 1000)
    job.scribe.poll()
assert job.wait() == [0]
assert job.scribe.drain(0, timeout_s=30)
assert job.pump(lambda: job.scribe.dropped() > 0)
start = time.monotonic()
job.scribe.close()
print("closed", time.monotonic() - start < 30, file=sys.stderr)
"""
    with ext4(tmp_path) as disk:
        start = time.monotonic()
        with agent(
            code, disk / "run", disk, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            out, err = process.communicate(timeout=60)  # until both pipes are at their end
        assert process.returncode == 0, err
        scribe, closed = err.splitlines()
        assert out == b"x" * 30_000_000
        assert closed == b"closed True"
        assert time.monotonic() - start < 60
        thaw(disk)
        assert eventually(lambda: not alive(int(scribe)), 30)


@pytest.mark.root
@root
def test_disk_that_thaws_goes_on(tmp_path: Path) -> None:
    with ext4(tmp_path) as disk:
        job = Job(disk / "run")
        job.folder()
        freeze(disk)
        job.scribe.record("events", b"while frozen")
        job.start(TALK, console=False)
        assert job.wait() == [0]
        thaw(disk)
        job.scribe.record("events", b"after")
        job.finish()
        assert lines(disk / "run/nodes/node/events.jsonl") == [b"while frozen", b"after"]
        assert lines(disk / "run/nodes/node/attempt-0/0/stdout.log")[-1] == b"199"


@pytest.mark.root
@root
def test_scribe_killed_while_its_disk_is_frozen(tmp_path: Path) -> None:
    """It stays as a zombie that keeps every descriptor open; another must take over."""
    worker = """
import os, time
for n in range(150):
    os.write(1, b"%d\\n" % n)
    time.sleep(0.02)
"""
    code = """
import subprocess
job = Job(sys.argv[1], sys.argv[3])
job.folder()
subprocess.run(["fsfreeze", "-f", sys.argv[2]], check=True)
job.start(sys.argv[4], stderr=False)
assert job.pump(lambda: job.scribe.tail(0, 0, timeout_s=0))
time.sleep(0.2)
os.kill(job.scribe.pid, signal.SIGKILL)
assert job.finish() == [0]
assert str(job.scribe.run_dir) == sys.argv[3], job.scribe.run_dir
"""
    with ext4(tmp_path) as disk:
        status, out, err = run_agent(code, disk / "run", disk, tmp_path / "good", worker)
        assert (status, err) == (0, b"")
        assert out.split()[-1] == b"149"


def test_working_directory_that_is_gone(tmp_path: Path) -> None:
    code = """
os.mkdir(sys.argv[1] + "/gone")
os.chdir(sys.argv[1] + "/gone")
os.rmdir(sys.argv[1] + "/gone")
job = Job("here", sys.argv[1] + "/good")
assert str(job.folder()).endswith("/good")
job.scribe.close()
"""
    assert run_agent(code, tmp_path) == (0, b"", b"")


def test_scribe_starts_without_the_users_site(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("open('/dev/full', 'w').write('x')")
    (tmp_path / "json.py").write_text("raise SystemExit")
    code = "job = Job(sys.argv[1]); job.folder(); job.scribe.close()"
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    program = f"import sys; sys.path[:0] = {sys.path!r}\nfrom output_kit import *\n" + code
    command = [sys.executable, "-S", "-c", program, str(tmp_path / "run")]
    subprocess.run(command, env=env, timeout=60, check=True)
    assert (tmp_path / "run/nodes/node").is_dir()
