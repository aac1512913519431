"""`eval "$(resilient shim)"`: real shells, odd paths, and folders that must not be used."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cli.tool import COMMAND, environment, resilient

SHELLS = [name for name in ("sh", "bash", "zsh") if shutil.which(name)]
ODD = 'it\'s a "path" with $HOME `id` ; é\n\\and !more'


def only(done: "subprocess.CompletedProcess[str]") -> Path:
    """The folder that the JSON form names."""
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["folder"])


def run_shell(shell: str, script: str, **extra: str) -> "subprocess.CompletedProcess[str]":
    tool = " ".join(f"'{word}'" for word in COMMAND)
    return subprocess.run(
        [shell, "-c", script.replace("RESILIENT", tool)],
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ["cache", ODD])
def test_torchrun_is_ours(tmp_path: Path, shell: str, name: str) -> None:
    done = run_shell(
        shell,
        'set -eu; eval "$(RESILIENT shim)"; eval "$(RESILIENT shim)"; '
        'command -v torchrun; printf "%s" "$PATH"',
        XDG_CACHE_HOME=str(tmp_path / name),
    )
    assert (done.returncode, done.stderr) == (0, "")
    places = done.stdout.split(":")
    assert done.stdout.startswith(str(tmp_path / name / "resilient-run" / "shim-"))
    assert sum("shim-" in place.split("\n")[-1] for place in places[1:]) == 0  # once only


def test_it_runs_the_resilient_run_of_this_environment(tmp_path: Path) -> None:
    done = resilient("shim", "--json", XDG_CACHE_HOME=str(tmp_path))
    found = json.loads(done.stdout)
    beside = Path(sys.executable).parent / "resilient-run"
    expected = [str(beside)] if beside.exists() else [sys.executable, "-P", "-m"]
    assert found["command"][: len(expected)] == expected
    shim = Path(found["torchrun"])
    assert shim.read_text().splitlines()[0] == "#!/bin/sh"
    assert stat.S_IMODE(shim.stat().st_mode) == stat.S_IMODE(shim.parent.stat().st_mode) == 0o700
    again = resilient("shim", "--json", XDG_CACHE_HOME=str(tmp_path))
    assert json.loads(again.stdout) == found
    assert list(shim.parent.iterdir()) == [shim]  # no temporary file left


def test_arguments_arrive_unchanged(tmp_path: Path) -> None:
    """The script in the folder, with an interpreter of an odd path that shows its arguments."""
    folder = only(resilient("shim", "--json", XDG_CACHE_HOME=str(tmp_path)))
    odd = tmp_path / ODD
    odd.mkdir()
    (odd / "python").symlink_to(sys.executable)
    shower = odd / "resilient-run"
    shower.write_text('#!/bin/sh\nfor word; do printf "<%s>" "$word"; done\n')
    shower.chmod(0o755)
    made = subprocess.run(
        [str(odd / "python"), "-m", "resilient.cli.tool", "shim", "--json"],
        env=environment(XDG_CACHE_HOME=str(tmp_path), PYTHONPATH=":".join(sys.path[1:])),
        capture_output=True,
        text=True,
        check=False,
    )
    other = only(made)
    assert other != folder  # one for each environment
    out = subprocess.check_output([str(other / "torchrun"), "a b", "", "*", "--x=$y"], text=True)
    assert out == "<a b><><*><--x=$y>"


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish(tmp_path: Path) -> None:
    done = run_shell(
        "fish",
        "RESILIENT shim --shell fish | source; command -s torchrun",
        XDG_CACHE_HOME=str(tmp_path / "it's \\ $x"),
        HOME=str(tmp_path),
    )
    assert done.stdout.startswith(str(tmp_path / "it's \\ $x" / "resilient-run" / "shim-"))


@pytest.mark.skipif(not shutil.which("tcsh"), reason="tcsh is not installed")
def test_csh(tmp_path: Path) -> None:
    done = run_shell(
        "tcsh",
        "eval `RESILIENT shim --shell csh`; which torchrun",
        XDG_CACHE_HOME=str(tmp_path / "it's $x !y"),
        HOME=str(tmp_path),
    )
    assert done.stdout.startswith(str(tmp_path / "it's $x !y" / "resilient-run" / "shim-"))


def test_check(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    cache = str(tmp_path / "cache")
    asked = {"PATH": str(empty), "XDG_CACHE_HOME": cache}
    done = resilient("shim", "--check", **asked)
    assert (done.returncode, done.stdout.split(".")[0]) == (1, "No torchrun is on PATH")
    (empty / "torchrun").write_text("#!/bin/sh\n")
    (empty / "torchrun").chmod(0o755)
    done = resilient("shim", "--check", "--json", **asked)
    assert (done.returncode, json.loads(done.stdout)["state"]) == (1, "other")
    folder = only(resilient("shim", "--json", **asked))
    asked["PATH"] = f"{folder}:{empty}"
    done = resilient("shim", "--check", **asked)
    assert (done.returncode, done.stdout) == (
        0,
        f"torchrun is {folder}/torchrun: this resilient-run.\n",
    )
    text = (folder / "torchrun").read_text().replace("exec ", "exec /elsewhere")
    (folder / "torchrun").write_text(text)
    done = resilient("shim", "--check", "--json", **asked)
    assert (done.returncode, json.loads(done.stdout)["state"]) == (1, "other environment")


def test_falls_back_to_the_temporary_directory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory can be made under a file")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = resilient("shim", "--json", HOME=str(blocked), XDG_CACHE_HOME="", TMPDIR=str(temporary))
    assert only(done).parent == temporary / f"resilient-run-{os.geteuid()}"
    colon = resilient("shim", "--json", XDG_CACHE_HOME=f"{tmp_path}/a:b", TMPDIR=str(temporary))
    assert only(colon) == only(done)  # a colon would split PATH


def spoil(above: Path, how: str) -> None:
    if how == "link":
        (above / "real").mkdir(parents=True)
        (above / "resilient-run").symlink_to("real")
        return
    (above / "resilient-run").mkdir(parents=True)
    if how == "writable":
        (above / "resilient-run").chmod(0o777)
    else:
        os.chown(above / "resilient-run", 65534, 65534)


@pytest.mark.parametrize(
    "how",
    [
        "link",
        "writable",
        pytest.param(
            "foreign",
            marks=[
                pytest.mark.root,
                pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away"),
            ],
        ),
    ],
)
def test_refuses_folders_that_others_control(tmp_path: Path, how: str) -> None:
    cache = tmp_path / "cache"
    spoil(cache, how)
    nowhere = tmp_path / f"resilient-run-{os.geteuid()}"
    nowhere.write_text("in the way")
    extra = {"XDG_CACHE_HOME": str(cache), "TMPDIR": str(tmp_path)}
    done = resilient("shim", **extra)
    assert (done.returncode, done.stdout) == (2, "false\n")
    assert str(cache / "resilient-run") in done.stderr
    assert str(nowhere) in done.stderr
    # What eval then does: it fails, so that a script under `set -e` does not go on unawares.
    shell = run_shell("sh", 'eval "$(RESILIENT shim)" 2>/dev/null; echo $?', **extra)
    assert shell.stdout == "1\n"


def test_misuse_is_harmless_code_too() -> None:
    done = resilient("shim", "--shell", "powershell")
    assert (done.returncode, done.stdout) == (2, "false\n")
    assert resilient("shim", "--check", "--bad").stdout == "false\n"
