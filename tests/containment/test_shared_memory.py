"""What killed processes leave in /dev/shm goes; what anyone still uses, or owns, stays."""

import os
import subprocess
from pathlib import Path

import pytest

from containment.surroundings import NOBODY, needs_root, python
from resilient.act.reap import (
    mapped_shared_memory,
    remove_orphan_shared_memory,
    remove_shared_memory,
)

SHM = Path("/dev/shm")


@pytest.fixture
def dead():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def segment():
    made = []

    def make(name):
        path = SHM / name
        path.write_bytes(b"x" * 4096)
        made.append(path)
        return path

    yield make
    for path in made:
        path.unlink(missing_ok=True)


def test_segments_of_the_dead_go_and_similar_names_stay(dead, segment):
    gone = [segment(f"torch_{dead}_1_0"), segment(f"torch_{dead}_2_99")]
    stays = [
        segment(f"torch_{dead}1_1_0"),
        segment(f"torch_1{dead}_1_0"),
        segment(f"xtorch_{dead}_1"),
        segment(f"torch_{os.getpid()}_1_0"),
    ]
    assert remove_shared_memory([dead, os.getpid()]) == 2
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in stays)
    assert remove_shared_memory([]) == 0


@pytest.mark.root
@needs_root
def test_the_files_of_another_user_stay(dead, segment):
    path = segment(f"torch_{dead}_1_0")
    os.chown(path, NOBODY, NOBODY)
    assert remove_shared_memory([dead]) == 0
    assert remove_orphan_shared_memory({str(path)}) == 0
    assert path.exists()


HOLDER = """
import mmap, os, sys, time
mapped, opened, deleted = sys.argv[1:]
with open(mapped, "r+b") as file:
    mapping = mmap.mmap(file.fileno(), 4096)
descriptor = open(opened)
other = open(deleted)
os.unlink(deleted)
print(flush=True)
time.sleep(600)
"""


def hold(*paths):
    process = subprocess.Popen(python("-c", HOLDER, *map(str, paths)), stdout=subprocess.PIPE)
    assert process.stdout.readline()
    return process


def test_mapped_and_open_files_are_found_and_go_with_their_last_user(segment):
    mapped, opened = segment("resilient-test-a b"), segment("resilient-test-opened")
    first = hold(mapped, opened, segment("resilient-test-deleted"))
    names = mapped_shared_memory([first.pid])
    assert names >= {str(mapped), str(opened)}
    second = hold(mapped, mapped, segment("resilient-test-deleted"))
    first.kill()
    first.communicate()
    assert remove_orphan_shared_memory(names) == 1
    assert mapped.exists()
    assert not opened.exists()
    second.kill()
    second.communicate()
    assert remove_orphan_shared_memory(names) == 1
    assert not mapped.exists()


def test_only_names_in_shared_memory_are_touched(tmp_path):
    file = tmp_path / "precious"
    file.write_text("")
    assert remove_orphan_shared_memory({str(file), "/dev/shm/../" + str(file)}) == 0
    assert file.exists()
    assert mapped_shared_memory([os.getpid(), 0]) >= set()
