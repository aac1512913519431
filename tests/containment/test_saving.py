"""sense.saving against processes that write real files."""

import subprocess
import time

import pytest

from containment.surroundings import frozen_disk, needs_root, open_folder, python, wait_until
from resilient.sense.saving import inside_save

WRITER = """
import os, sys, time
path, mode = sys.argv[1:]
descriptor = open(path, mode)
while True:
    descriptor.write(b"x" * 1000)
    descriptor.flush()
    print(flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def folder():
    with open_folder() as path:
        yield path


def write(path, mode="wb", code=WRITER):
    writer = subprocess.Popen(python("-c", code, path, mode), stdout=subprocess.PIPE)
    assert writer.stdout.readline()
    return writer


def seen(writer):
    """The answers of a while, so that both a chance hit and a chance miss would show."""
    answers = set()
    for _ in range(10):
        answers.add(inside_save(writer.pid, time.time()))
        time.sleep(0.02)
    return answers


def end(writer):
    writer.kill()
    writer.communicate()


def test_a_checkpoint_in_the_making_is_seen(folder):
    writer = write(f"{folder}/model.pt")
    assert seen(writer) == {f"{folder}/model.pt"}
    end(writer)


def test_a_slow_torch_save_is_seen(folder):
    code = """
import sys, time, torch
class Slow:
    def __init__(self, file): self.file = file
    def write(self, piece):
        time.sleep(0.01)
        return self.file.write(piece)
    def flush(self): self.file.flush()
with open(sys.argv[1], sys.argv[2], buffering=0) as file:
    print(flush=True)
    while True:
        torch.save({str(n): torch.zeros(1000) for n in range(50)}, Slow(file))
"""
    writer = write(f"{folder}/step-100/rank0.distcp".replace("/step-100", ""), code=code)
    wait_until(lambda: inside_save(writer.pid, time.time()), "the save")
    assert inside_save(writer.pid, time.time()).endswith("rank0.distcp")
    end(writer)


@pytest.mark.parametrize(
    "name",
    ["train.log", "train.log.1", "notes.TXT", "x.out", "x.err", "loss.csv", "m.json", "m.jsonl",
     "events.out.tfevents.1700000000.host.1.0"],
)  # fmt: skip
def test_logs_are_not(folder, name):
    writer = write(f"{folder}/{name}")
    assert seen(writer) == {None}
    end(writer)


def test_what_is_appended_to_is_a_log_whatever_its_name(folder):
    writer = write(f"{folder}/model.pt", "ab")
    assert seen(writer) == {None}
    end(writer)


def test_redirected_output_is_a_log_whatever_its_name(folder):
    with open(f"{folder}/output", "wb") as output:
        code = "import time\nwhile True: print(flush=True); time.sleep(0.02)"
        writer = subprocess.Popen(python("-c", code), stdout=output)
    time.sleep(0.2)
    assert seen(writer) == {None}
    end(writer)


def test_reading_is_not_writing_and_an_old_file_is_not_fresh(folder):
    with open(f"{folder}/data", "wb") as file:
        file.write(b"fresh")
    reader = write(f"{folder}/data", "rb", "import sys, time; f = open(sys.argv[1], sys.argv[2]); "
                   "print(flush=True); time.sleep(600)")  # fmt: skip
    assert seen(reader) == {None}
    end(reader)
    writer = write(f"{folder}/model.pt")
    assert inside_save(writer.pid, time.time() + 10) is None
    end(writer)


def test_a_process_that_is_gone_saves_nothing():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert inside_save(gone.pid, time.time()) is None


@pytest.mark.root
@needs_root
def test_a_disk_that_hangs_does_not_hang_us_and_is_no_save():
    with frozen_disk() as (disk, thaw):
        code = (
            "import sys, time; f = open(sys.argv[1], 'r+b'); print(flush=True); f.write(b'x'); "
            "f.flush()"
        )
        writer = write(f"{disk}/file", code=code)
        time.sleep(0.6)
        began = time.monotonic()
        assert inside_save(writer.pid, time.time()) is None
        assert time.monotonic() - began < 5
        thaw()
        end(writer)
