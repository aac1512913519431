"""Reading run directories: whole ones, those of killed jobs, and damaged ones."""

import os
from pathlib import Path

import msgspec
import pytest

from report.samples import NODE, a_run, an_incident, write_run
from resilient.model.errors import Misuse
from resilient.model.event import Event
from resilient.report.read import find, load


def event(at: float, kind: str = "worker.exit") -> bytes:
    return msgspec.json.encode(Event(at=at, mono=at, kind=kind, attempt=0, data={"code": -9}))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", a_run(), (an_incident(2), an_incident(1)))


def test_reads_everything(run: Path) -> None:
    (run / "nodes" / NODE / "events.jsonl").write_bytes(event(3) + b"\n" + event(5) + b"\n")
    (run / "nodes" / "nodeB-1").mkdir()
    (run / "nodes" / "nodeB-1" / "events.jsonl").write_bytes(event(4, "worker.start") + b"\n")
    folder = load(run)
    assert folder.run == a_run()
    assert [one.number for one in folder.incidents] == [1, 2]
    assert folder.incidents[0] == an_incident(1)
    assert [line.record.at for line in folder.events] == [3, 4, 5]  # nodes merged by time
    assert [line.number for line in folder.events] == [1, 1, 2]
    assert folder.decisions == ()
    assert folder.notes == []


def test_finds_the_latest_in_a_directory_of_runs(run: Path) -> None:
    (run.parent / "latest").symlink_to("run")
    assert find(run.parent) == find(run.parent / "latest") == find(run) == run.resolve()


def test_what_is_no_run_directory(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="does not exist"):
        load(tmp_path / "nowhere")
    with pytest.raises(Misuse, match=r"holds no run\.json"):
        load(tmp_path)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(Misuse, match="is no directory"):
        load(file)
    (tmp_path / "dangling").symlink_to("gone")
    with pytest.raises(Misuse, match="does not exist"):
        load(tmp_path / "dangling")


@pytest.mark.parametrize("cut", [b'{"schema":1,"at":6', b"\x00\x00\x00", b'{"at":"\xff'])
def test_a_last_line_that_is_cut_off_is_left_out_and_said(run: Path, cut: bytes) -> None:
    file = run / "nodes" / NODE / "events.jsonl"
    file.write_bytes(event(3) + b"\n" + cut)
    folder = load(run)
    assert [line.record.at for line in folder.events] == [3]
    assert folder.notes == [f"{file}:2: the last line is cut off and was left out."]


def test_a_last_line_without_newline_that_is_whole_counts(run: Path) -> None:
    (run / "nodes" / NODE / "events.jsonl").write_bytes(event(3) + b"\n" + event(4))
    assert len(load(run).events) == 2


@pytest.mark.parametrize("bad", [b"{", b"[1]", b'{"at": "x"}', b"\xff", b"[" * 100_000])
def test_a_damaged_line_is_named_with_the_way_out(run: Path, bad: bytes) -> None:
    file = run / "nodes" / NODE / "events.jsonl"
    file.write_bytes(event(3) + b"\n" + bad + b"\n" + event(4) + b"\n")
    with pytest.raises(Misuse) as caught:
        _ = load(run).events
    assert f"{file}:2: this is no Event record" in str(caught.value)
    assert f"sed -i 2d {file}" in str(caught.value)


@pytest.mark.parametrize("name", ["run.json", "incidents/0001/incident.json"])
def test_damaged_documents(run: Path, name: str) -> None:
    (run / name).write_text('{"schema": 1, "number": ')
    with pytest.raises(Misuse) as caught:
        load(run)
    assert str(run / name) in str(caught.value)
    assert "from a copy" in str(caught.value)


def test_records_of_the_future(run: Path) -> None:
    (run / "run.json").write_text('{"schema": 7, "all": "different"}')
    with pytest.raises(Misuse, match=r"newer resilient-run \(schema 7"):
        load(run)
    (run / "run.json").write_bytes(msgspec.json.encode(a_run(schema=2)))
    with pytest.raises(Misuse, match=r"schema 2"):
        load(run)


def test_what_is_no_file(run: Path) -> None:
    os.mkfifo(run / "nodes" / NODE / "events.jsonl")  # reading it would wait for ever
    with pytest.raises(Misuse, match="no regular file"):
        _ = load(run).events


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_directory_of_somebody_else(run: Path) -> None:
    run.chmod(0o700)
    os.seteuid(65534)
    try:
        with pytest.raises(Misuse, match="as the user who started the job"):
            load(run)
    finally:
        os.seteuid(0)
