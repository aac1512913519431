"""What a script can see of its process is the same without us, watched, and from a standby."""

import json
import shutil
import site
import sys
from pathlib import Path

import pytest

from .harness import Result, environment, run, warm

SCRIPTS = Path(__file__).parent / "scripts"
BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)
USERS = """
import builtins, os
print("MODULE of the user", os.environ.get("RESILIENT_HOOK"), os.environ["PYTHONPATH"][-4:])
builtins.customized = getattr(builtins, "customized", ()) + ("MODULE",)
os.environ["FROM_MODULE"] = "1"
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """The probe in all three ways; the interpreter knows neither `resilient` nor a venv."""
    folder = tmp_path_factory.mktemp("probe")
    shutil.copy(SCRIPTS / "probe.py", folder)
    for module in ("sitecustomize", "usercustomize"):
        (folder / f"{module}.py").write_text(USERS.replace("MODULE", module))
    env = environment(
        PYTHONPATH=f"{folder}:{site.getsitepackages()[0]}:",
        PYTHONWARNINGS="ignore::ResourceWarning,default:nothing",
        PYTHONHASHSEED="7",
        PYTHONFAULTHANDLER="1",
        PYTHONNOUSERSITE=None,
    )
    options = {"env": env, "cwd": folder, "python": [BASE_PYTHON]}
    args = ["probe.py", "--a", "b c"]
    plain = run("plain", args, **options)
    assert plain.code == 0, plain.stderr
    observed = run("observe", args, **options)
    # Whether the group from torch._dynamo was preloaded makes no difference either.
    return {"plain": plain, "observe": observed, "standby": warm(args, observed.plan(), **options)}


@pytest.mark.parametrize("mode", ["observe", "standby"])
def test_nothing_differs(reports: dict[str, Result], mode: str) -> None:
    plain, other = reports["plain"], reports[mode]
    assert (other.code, other.stderr) == (0, plain.stderr)
    *customized, printed = plain.stdout.splitlines()
    *customized_too, printed_too = other.stdout.splitlines()
    assert customized_too == customized  # the user's own modules, once each, in order
    assert [line.split()[0] for line in customized] == ["sitecustomize", "usercustomize"]
    expected, found = json.loads(printed), json.loads(printed_too)
    differences = {
        f"{part}: {key}": (value, found[part][key])
        for part, values in expected.items()
        for key, value in values.items()
        if found[part][key] != value
    }
    assert not differences


def test_nothing_was_started_over(reports: dict[str, Result]) -> None:
    assert reports["observe"].kinds == ["hook", "observed", "late", "main_ended"]
    assert reports["standby"].kinds == ["hook", "ready", "main_ended"]
    assert reports["standby"].message("ready")["late"] is True


def test_no_trace_in_importer_cache(reports: dict[str, Result]) -> None:
    for result in reports.values():
        assert not json.loads(result.stdout.splitlines()[-1])["begin"]["importer_cache"]
