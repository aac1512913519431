"""The demonstration itself, and that it does not pass when something is wrong."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("launch_demo", ROOT / "launch/demo.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["launch_demo"] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_demo() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "launch/demo.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    for run in re.findall(r"resilient report (resilient-runs/\S+)", done.stdout):
        shutil.rmtree(ROOT / run, ignore_errors=True)
    assert done.returncode == 0, done.stdout
    assert "the report is right" in done.stdout
    assert "SIGKILL" in done.stdout


@pytest.mark.parametrize(
    ("losses", "killed_after", "reason"),
    [
        ([(10, 3.0), (400, 2.0)], None, "before there was a chance"),
        ([(10, 3.0), (20, 2.5)], 2, "did not come back"),
        ([(10, 4.0), (200, 2.0), (10, 4.0), (400, 1.5)], 2, "started over"),
        ([(10, 3.0), (180, 2.0), (190, 2.0), (200, 2.0), (210, 2.0), (400, 2.1)], 4, "not go on"),
        ([(10, 3.0), (200, 2.0), (210, 2.0), (390, 1.5)], 2, "not 400"),
    ],
)
def test_demo_sees_a_wrong_loss(
    demo: ModuleType, losses: list[tuple[int, float]], killed_after: int | None, reason: str
) -> None:
    with pytest.raises(demo.WrongResult, match=reason):
        demo.check_loss(demo.Seen(losses, killed_after))


def report(**changes: object) -> dict[str, object]:
    incident = {
        "first_rank": 1,
        "class": "worker_killed",
        "sentence": "Rank 1 was killed by SIGKILL",
        "action": "restart",
    }
    return {"exit_code": 0, "incidents": [incident | changes]}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"exit_code": 0, "incidents": []}, "0 incidents"),
        (report(first_rank=0), "blames rank 0"),
        (report(sentence="Rank 1 left"), "does not say SIGKILL"),
        (report(action="stop"), "does not say that the run came back"),
        (report() | {"exit_code": 1}, "does not say that the run came back"),
    ],
)
def test_demo_sees_a_wrong_report(demo: ModuleType, wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(demo.WrongResult, match=reason):
        demo.check_report(wrong)


def test_demo_accepts_a_right_report(demo: ModuleType) -> None:
    demo.check_report(report())
