"""Reads the Kubernetes files and runs their pods' command as processes of this machine."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
RECIPES = ROOT / ".venv-recipes"  # made by tests/launch/install_libraries
LIMIT_S = 60

_TO_JSON = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
_FROM_K8S = """\
import json, sys, kubernetes_validate
for document in json.load(sys.stdin):
    kubernetes_validate.validate(document, sys.argv[1], strict=True)
"""


def python_with(module: str) -> str | None:
    """An interpreter of this machine that has a module which is not in .venv as a rule."""
    for place in (sys.executable, str(RECIPES / "bin/python"), "/usr/bin/python3"):
        command = [place, "-c", f"import {module}"]
        if (
            shutil.which(place)
            and not subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode
        ):
            return place
    return None


def load(name: str) -> list[dict[str, Any]]:
    """The documents of launch/`name`; skips where no interpreter has PyYAML."""
    if (python := python_with("yaml")) is None:
        pytest.skip("no Python here has PyYAML (apt-get install python3-yaml)")
    command = [python, "-c", _TO_JSON, ROOT / "launch" / name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    documents: list[dict[str, Any]] = json.loads(done.stdout)
    return documents


def check_schema(documents: list[dict[str, Any]], version: str) -> str:
    """What Kubernetes' own schema of a version says against them; "" is nothing."""
    if (python := python_with("kubernetes_validate")) is None:
        pytest.skip("kubernetes-validate is not installed (tests/launch/install_libraries)")
    command = [python, "-W", "ignore", "-c", _FROM_K8S, version]
    done = subprocess.run(
        command, check=False, input=json.dumps(documents), capture_output=True, text=True
    )
    return done.stderr if done.returncode else ""


def container(pod: dict[str, Any]) -> dict[str, Any]:
    """The only container of a pod's template."""
    (one,) = pod["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def variables(pod: dict[str, Any]) -> dict[str, str]:
    """Its variables with a fixed value."""
    return {one["name"]: one["value"] for one in container(pod)["env"] if "value" in one}


def run(pod: dict[str, Any], folder: Path, script: Path, env: dict[str, str]) -> list[str]:
    """Start a pod's command once for each index; their output. All have to end with 0.

    As root each is PID 1 of a namespace, as in a pod. `env` holds what Kubernetes would fill in.
    """
    own = ["unshare", "--pid", "--fork", "--mount-proc"] if os.geteuid() == 0 else []
    given = os.environ | variables(pod) | {"PATH": f"{BIN}:{os.environ['PATH']}"} | env
    command = [*own, *container(pod)["command"], str(script)]
    pods = [
        subprocess.Popen(
            command,
            cwd=folder,
            env=given | {"JOB_COMPLETION_INDEX": str(index)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for index in range(int(given["NNODES"]))
    ]
    return list(_outputs(pods))


def _outputs(pods: "list[subprocess.Popen[str]]") -> Iterator[str]:
    try:
        for pod in pods:
            out, _ = pod.communicate(timeout=LIMIT_S)
            print(out)
            assert pod.returncode == 0, out
            yield out
    finally:
        for pod in pods:
            pod.kill()
            pod.wait()
