"""`resilient policy`, and the README's table that is made from it."""

import json
from pathlib import Path

from cli.tool import ROOT, resilient

from resilient.cli.policy import BEGIN, END, markdown
from resilient.model.policy import knobs


def test_the_readme_has_exactly_the_generated_table() -> None:
    readme = (Path(ROOT) / "README.md").read_text()
    start, end = readme.find(BEGIN), readme.find(END)
    assert 0 <= start < end, f"README.md needs the lines {BEGIN} and {END}"
    found = readme[start : end + len(END)] + "\n"
    assert found == markdown(), "replace it by the output of `resilient policy --markdown`"


def test_prints_values_and_origins() -> None:
    done = resilient("policy", RESILIENT_WARM_START="off", COLUMNS="100")
    assert done.returncode == 0, done.stderr
    assert "RESILIENT_WARM_START = off   from the environment" in done.stdout
    assert "RESILIENT_FAULT_GRACE_S = 1 s   (default)" in done.stdout
    assert "RESILIENT_STOP_GRACE_S = (not set)   (default)" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_json() -> None:
    done = resilient("policy", "--json", RESILIENT_LOG_HEAD_MIB="9")
    found = json.loads(done.stdout)
    assert found["schema"] == 1
    by_name = {one["variable"]: one for one in found["variables"]}
    assert set(by_name) == {knob.variable for knob in knobs()}
    head = by_name["RESILIENT_LOG_HEAD_MIB"]
    assert (head["value"], head["default"], head["origin"], head["unit"], head["type"]) == (
        9,
        4,
        "environment",
        "MiB",
        "int",
    )


def test_mistakes_are_misuse_in_both_forms() -> None:
    wrong = {"RESILIENT_WARM_STRAT": "off", "RESILIENT_STOPPED_S": "soon"}
    done = resilient("policy", **wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean RESILIENT_WARM_START?" in done.stderr
    assert "RESILIENT_STOPPED_S='soon'" in done.stderr
    done = resilient("policy", "--json", **wrong)
    assert done.returncode == 2
    assert "RESILIENT_STOPPED_S" in json.loads(done.stdout)["error"]


def test_markdown_needs_no_right_environment() -> None:
    done = resilient("policy", "--markdown", RESILIENT_STOPPED_S="soon")
    assert (done.returncode, done.stdout) == (0, markdown())


def test_a_secret_is_shown_nowhere() -> None:
    for arguments in (["policy"], ["policy", "--json"]):
        done = resilient(*arguments, RESILIENT_RUN_KEY="open sesame")
        assert "sesame" not in done.stdout + done.stderr
        assert "*****" in done.stdout
