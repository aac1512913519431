"""Help and mistakes: same exit code, same words, without starting anything."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from differential.execute import BIN, RESILIENT, TORCHRUN

USAGE = ("--help", "", "--nosuch x.py", "--max-restarts few x.py", "--start-method x x.py")
MISTAKES = (
    "--nproc-per-node many x.py",
    "--nproc-per-node gpu x.py",
    "--nnodes 2:1 x.py",
    "--nnodes 1:2:3 x.py",
    "--max-restarts -1 x.py",
    "--rdzv-backend nosuch --rdzv-endpoint localhost:0 x.py",
    "-m --no-python x.py",
    "--logs-specs nosuch x.py",
    "--local-ranks-filter a x.py",
    "-r 7 x.py",
    "--no-python nosuch_program",
    "--numa-binding node x.py",
)


def launch(launcher: str, line: str, where: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(BIN / launcher), *line.split()]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(where), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=where, env=env, text=True, capture_output=True, timeout=100, check=False
    )


def both(line: str, where: Path) -> list["subprocess.CompletedProcess[str]"]:
    where.joinpath("x.py").write_text("print('started')\n")
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda name: launch(name, line, where), (TORCHRUN, RESILIENT)))


def words(text: str) -> list[str]:
    """Without the program's name, whose length moves the line breaks as well."""
    return text.replace(TORCHRUN, RESILIENT).split()


@pytest.mark.parametrize("line", USAGE)
def test_usage(line: str, tmp_path: Path) -> None:
    theirs, ours = both(line, tmp_path)
    assert ours.returncode == theirs.returncode
    assert words(ours.stderr) == words(theirs.stderr)
    ours_said, theirs_said = words(ours.stdout), words(theirs.stdout)
    added = ours_said[len(theirs_said) :]
    assert ours_said[: len(theirs_said)] == theirs_said
    assert not added or "RESILIENT_*" in added  # where help says how policy is set


@pytest.mark.parametrize("line", MISTAKES)
def test_mistake(line: str, tmp_path: Path) -> None:
    theirs, ours = both(line, tmp_path)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    reason = theirs.stderr.strip().splitlines()[-1]
    assert reason in ours.stderr
