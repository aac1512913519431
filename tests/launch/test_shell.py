"""The shell in launch/: what bash and shellcheck say, and what the Kubernetes files have inside."""

import shutil
import subprocess
from pathlib import Path

import pytest

from launch import pods

ROOT = Path(__file__).parents[2]
SCRIPTS = [ROOT / "launch/slurm.sbatch", ROOT / "tests/launch/install_libraries"]


def scripts(folder: Path) -> list[Path]:
    """All of them as files; first lines say which shell they are for."""
    command = pods.container(pods.load("kubernetes-job.yaml")[1]["spec"]["template"])["command"]
    assert command[:2] == ["bash", "-ec"]
    inside = folder / "pod.sh"
    inside.write_text(f"#!/bin/bash\nset -e\n{command[2]}")
    return [*SCRIPTS, inside]


def test_bash_can_read_it(tmp_path: Path) -> None:
    for script in scripts(tmp_path):
        subprocess.run(["bash", "-n", script], check=True)


def test_shellcheck_has_nothing_to_say(tmp_path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    # SC2154: the variables of the pod are in its specification.
    command = ["shellcheck", "--exclude=SC2154", *scripts(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_slurm_options_stand_before_the_first_command() -> None:
    """Slurm ignores those that come later."""
    lines = (ROOT / "launch/slurm.sbatch").read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if line and not line.startswith("#"))
    options = [n for n, line in enumerate(lines) if line.startswith("#SBATCH")]
    assert options
    assert max(options) < first
    named = {lines[n].split()[1].partition("=")[0] for n in options}
    assert {"--requeue", "--signal", "--no-kill", "--open-mode"} <= named
