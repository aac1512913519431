"""The recipes really run on two CPU ranks, where their library is installed."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from launch.pods import BIN, RECIPES, ROOT

LIMIT_S = 100
PACKAGES = next(RECIPES.glob("lib/python*/site-packages"), None)
ACCELERATED = """
import os, torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
accelerator.backward(model(torch.ones(2, 4)).pow(2).mean())
optimizer.step()
said = f"rank {accelerator.process_index} of {accelerator.num_processes}"
os.write(1, f"{said} in {accelerator.mixed_precision}\\n".encode())  # in one piece
accelerator.end_training()
"""


def run(folder: Path, module: str, *command: object, **more: str) -> str:
    """The output of a command that has to end with 0; skips where `module` is not installed."""
    env = os.environ | {
        "RESILIENT_RUN_DIR": str(folder / "run"),
        "OMP_NUM_THREADS": "1",
        "HF_HOME": str(folder / "hf"),  # nobody's `accelerate config`
        **more,
    }
    env["PATH"] = f"{BIN}:{env['PATH']}"
    if PACKAGES is not None:
        env["PATH"] += f":{RECIPES / 'bin'}"  # ninja, for DeepSpeed
        env |= {"PYTHONPATH": str(PACKAGES), "TORCH_EXTENSIONS_DIR": str(RECIPES / "extensions")}
    look = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"
    if subprocess.run([sys.executable, "-c", look], check=False, env=env).returncode:
        pytest.skip(f"{module} is not installed (tests/launch/install_libraries)")
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        cwd=folder,
        env=env,
        text=True,
        timeout=LIMIT_S,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    return done.stdout


def record(folder: Path) -> dict[str, Any]:
    """What resilient-run wrote of the run: that it was not torchrun."""
    found: dict[str, Any] = json.loads((folder / "run/run.json").read_text())
    return found


@pytest.fixture
def accelerated(tmp_path: Path) -> Path:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(ACCELERATED))
    return script


def test_accelerate_launch(tmp_path: Path, accelerated: Path) -> None:
    recipe = ROOT / "launch/recipes/accelerate_launch.py"
    options = ["--multi_gpu", "--num_processes=2", "--mixed_precision=bf16"]
    out = run(tmp_path, "accelerate", "python", recipe, *options, accelerated)
    assert {"rank 0 of 2 in bf16", "rank 1 of 2 in bf16"} <= set(out.splitlines())
    assert (record(tmp_path)["world_size"], record(tmp_path)["exit_code"]) == (2, 0)


def test_accelerate_without_its_launcher(tmp_path: Path, accelerated: Path) -> None:
    """As the recipe says, for the exit codes."""
    command = ["resilient-run", "--standalone", "--nproc-per-node=2", accelerated]
    out = run(tmp_path, "accelerate", *command, ACCELERATE_MIXED_PRECISION="bf16")
    assert {"rank 0 of 2 in bf16", "rank 1 of 2 in bf16"} <= set(out.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "first", "again"),
    [
        ("deepspeed", "steps 0 to 10", "steps 10 to 20"),
        ("lightning", "ended at step 10", "Restored all states"),
    ],
)
def test_a_script_that_goes_on(tmp_path: Path, module: str, first: str, again: str) -> None:
    """Started a second time it goes on from the checkpoint of the first."""
    script = ROOT / f"launch/recipes/{module}_train.py"
    command = ["resilient-run", "--standalone", "--nproc-per-node=2", script]
    command += ["--checkpoints", tmp_path / "checkpoints", "--steps"]
    assert first in run(tmp_path, module, *command, "10")
    assert record(tmp_path)["world_size"] == 2
    out = run(tmp_path, module, *command, "20")
    assert again in out
    assert "steps 10 to 20" in out or "ended at step 20" in out
