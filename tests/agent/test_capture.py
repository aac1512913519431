"""Where the output goes, and that the failing rank is quoted whatever it was sent to."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.ended import Ended
from agent.starting import Batch

SCRIPT = """
from note import ATTEMPT, RANK, note, wait_for
import sys, time
print(f"out of {RANK} in {ATTEMPT}")
print(f"err of {RANK} in {ATTEMPT}", file=sys.stderr)
note("ready")
if RANK == 0:
    time.sleep(60)
wait_for("ready", 2)
raise ValueError(f"text of the failure in {ATTEMPT}")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def batch(new_batch: Callable[[], Batch], folder: Path) -> Batch:
    runs = new_batch()
    runs.add("off", SCRIPT, env={"RESILIENT_CAPTURE": "off"})
    runs.add("redirected", SCRIPT, f"-r 3 --log-dir {folder}/redirected")
    runs.add("teed", SCRIPT, f"-t 3 --log-dir {folder}/teed")
    runs.add("one redirected", SCRIPT, f"-r 1:3 --log-dir {folder}/one")
    runs.add("filtered", SCRIPT, "--local-ranks-filter=0")
    runs.add("redirected, nowhere", SCRIPT, "-r 3", clean=False)
    runs.add("twice", SCRIPT, f"-r 3 --max-restarts=1 --log-dir {folder}/twice")
    return runs


def quoted(ended: Ended) -> bool:
    """In the report, after everything else."""
    return "| ValueError: text of the failure in 0" in ended.report


def texts(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.rglob("std*.log")))


@pytest.mark.parametrize(
    "name", ["redirected", "teed", "one redirected", "filtered", "redirected, nowhere"]
)
def test_the_failing_rank_is_quoted(batch: Batch, name: str) -> None:
    ended = batch[name]
    assert ended.code == 1
    assert ended.incidents == [("user_error", 1, "stop")]
    assert quoted(ended)
    assert "raised ValueError" in ended.run.incidents[0].sentence


def test_switched_off(batch: Batch) -> None:
    """Nothing is copied, so nothing can be quoted; all went to the console."""
    ended = batch["off"]
    assert ended.code == 1
    assert ended.incidents[0][1] == 1
    assert not ended.logs
    assert ended.out.count("out of") == 2
    assert ended.err.count("ValueError: text of the failure") == 1


@pytest.mark.parametrize("name", ["redirected", "redirected, nowhere"])
def test_redirected_output_stays_off_the_console(batch: Batch, name: str) -> None:
    ended = batch[name]
    assert "out of" not in ended.out
    assert "err of 0" not in ended.err


def test_teed_output_goes_both_ways(batch: Batch, folder: Path) -> None:
    ended = batch["teed"]
    assert "[default0]:out of 0" in ended.out
    assert "out of 0" in texts(folder / "teed")


def test_redirected_output_is_kept(batch: Batch, folder: Path) -> None:
    batch["redirected"]
    assert {"out of 0", "out of 1"} <= {
        line.rpartition(" in ")[0] for line in texts(folder / "redirected").splitlines()
    }


def test_redirected_output_is_kept_without_a_named_folder(batch: Batch) -> None:
    """T37: torchrun leaves it in its folder in TMPDIR. Wherever ours is, it must be there."""
    ended = batch["redirected, nowhere"]
    run_dir = texts(ended.run.path)
    temp = "".join(map(texts, ended.run.path.parent.glob("tmp/*")))
    assert "text of the failure" in run_dir + temp


def test_redirected_output_of_every_attempt_is_kept(batch: Batch, folder: Path) -> None:
    batch["twice"]
    found = texts(folder / "twice")
    assert "out of 1 in 0" in found
    assert "out of 1 in 1" in found


def test_a_filtered_rank_is_silent_but_recorded(batch: Batch) -> None:
    ended = batch["filtered"]
    assert "out of 0" in ended.out
    assert "out of 1" not in ended.out
    assert "out of 1" in ended.logs["attempt-0/1/stdout.log"]
