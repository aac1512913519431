"""The example trains, saves, and goes on from its checkpoint as if nothing had happened."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = ("--width", "16", "--depth", "1", "--batch", "4", "--print-every", "5", "--save-every", "5")
LINE = re.compile(r"step +(\d+)  loss ([0-9.]+)")


def train(checkpoints: Path, *options: str) -> dict[int, float]:
    """One process; the loss by step, as printed."""
    launcher = str(Path(sys.executable).with_name("torchrun"))
    script = str(ROOT / "launch/examples/char_lm.py")
    command = [launcher, "--standalone", script, "--checkpoints", str(checkpoints)]
    command += [*SMALL, *options]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    out = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    assert "it writes:" in out
    return {int(step): float(loss) for step, loss in LINE.findall(out)}


def test_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    whole = train(tmp_path / "one", "--steps", "20")
    assert list(whole) == [5, 10, 15, 20]
    (tmp_path / "two").mkdir()
    for name in ("step-000015.pt",):  # as if it had been killed after step 15
        (tmp_path / "one" / name).rename(tmp_path / "two" / name)
    again = train(tmp_path / "two", "--steps", "20")
    assert list(again) == [20]
    assert again[20] == pytest.approx(whole[20], abs=0.002)


def test_keeps_two_checkpoints_and_no_half_one(tmp_path: Path) -> None:
    train(tmp_path, "--steps", "15")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000010.pt", "step-000015.pt"]
