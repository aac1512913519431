"""The command itself: help that teaches, versions, and what it must not load."""

import json
import subprocess
import sys

import pytest

from cli.tool import environment, resilient

VERBS = ("report", "explain", "policy", "shim")


def test_help_names_every_verb_with_an_example() -> None:
    done = resilient("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert f"resilient {verb}" in done.stdout
    assert "exit codes:" in done.stdout
    nothing = resilient()
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "examples:" in nothing.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb_has_examples_and_exit_codes(verb: str) -> None:
    done = resilient(verb, "--help")
    assert done.returncode == 0
    assert "examples:\n" in done.stdout
    assert "exit codes:" in done.stdout
    assert "--json" in done.stdout


def test_version() -> None:
    import resilient as package

    assert resilient("--version").stdout == f"resilient-run {package.__version__}\n"


def test_misuse() -> None:
    assert resilient("reprot").returncode == 2
    assert resilient("report", "--no-such-flag").returncode == 2


def test_loads_nothing_heavy() -> None:
    code = (
        "import sys, json, resilient.cli.tool\n"
        "print(json.dumps([name for name in sys.argv[1:] if name in sys.modules]))"
    )
    names = ["torch", "numpy", "networkx", "jinja2", "rich"]
    out = subprocess.check_output([sys.executable, "-c", code, *names], env=environment())
    assert json.loads(out) == []


def test_started_with_its_output_closed() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" -m resilient.cli.tool policy >&-', sys.executable],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
