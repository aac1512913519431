"""A worker's log keeps its beginning and its end, byte for byte."""

import os
from pathlib import Path

import pytest
from output_kit import mounted

from resilient.act.bounded_log import BoundedLog


def pieces(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_small_log_is_one_file(tmp_path: Path) -> None:
    log = BoundedLog(str(tmp_path / "stdout"))
    assert log.write(b"a\n") == 0
    assert log.write(b"\0\xff") == 0
    log.close()
    assert pieces(tmp_path) == {"stdout.log": b"a\n\0\xff"}


@pytest.mark.parametrize("step", [1, 7, 64, 1000])
def test_head_and_tail_are_exact(tmp_path: Path, step: int) -> None:
    data = os.urandom(1000)
    log = BoundedLog(str(tmp_path / "stdout"), head=40, segment=100, keep=3)
    for start in range(0, len(data), step):
        log.write(data[start : start + step])
    log.close()
    found = pieces(tmp_path)
    head = found.pop("stdout.log")
    assert head == data[:40]
    assert list(found) == [f"stdout.tail-{n:04d}.log" for n in (8, 9, 10)]
    tail = b"".join(found.values())
    assert data.endswith(tail) and 200 <= len(tail) <= 300


def test_successor_goes_on_where_it_stopped(tmp_path: Path) -> None:
    data = os.urandom(500)
    for start in range(0, 500, 50):
        log = BoundedLog(str(tmp_path / "a.b/stdout"), head=40, segment=100, keep=9)
        log.write(data[start : start + 50])
        log.close()
    assert b"".join(pieces(tmp_path / "a.b").values()) == data


def test_a_log_named_like_another_is_not_its_segment(tmp_path: Path) -> None:
    (tmp_path / "stdout.tail-x.log").write_bytes(b"")
    (tmp_path / "stdout.tail-9").mkdir()
    log = BoundedLog(str(tmp_path / "stdout"))
    log.write(b"x")
    log.close()
    assert (tmp_path / "stdout.log").read_bytes() == b"x"


def test_files_are_private(tmp_path: Path) -> None:
    log = BoundedLog(str(tmp_path / "stdout"))
    log.write(b"x")
    log.close()
    assert (tmp_path / "stdout.log").stat().st_mode & 0o777 == 0o600


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "stdout.log").symlink_to("victim")
    log = BoundedLog(str(tmp_path / "stdout"))
    assert log.write(b"x") == 1
    assert (tmp_path / "victim").read_bytes() == b"precious"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_full_disk_loses_and_says_so(tmp_path: Path) -> None:
    with mounted("-t", "tmpfs", "-o", "size=1m", "none", at=tmp_path / "small") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(b"b" * (512 << 10))
        log = BoundedLog(str(disk / "stdout"))
        lost = sum(log.write(b"x" * 1000) for _ in range(1000))
        assert lost == log.missing > 400_000
        assert "space" in log.reason
        ballast.unlink()
        assert log.write(b"after\n") == 0
        log.close()
        text = (disk / "stdout.log").read_bytes()
    kept = 1_000_000 - lost
    marker = f"\n[resilient-run: {lost} bytes are missing here: {log.reason}]\n".encode()
    assert text == b"x" * kept + marker + b"after\n"
