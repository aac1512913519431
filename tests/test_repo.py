"""The repository keeps its own rules."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "networkx", "rich", "jinja2"}
MARKERS = re.compile(r"\b(TO" + "DO|FIX" + "ME|X" + "XX|HA" + "CK)\\b|NotImplemented" + "Error")
NOT_OURS = {"LICENSE"}


def tracked() -> list[Path]:
    """Text files that belong to the repository, committed or about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = [ROOT / name.decode() for name in names.split(b"\0") if name]
    return [
        p for p in paths if p.is_file() and p.name not in NOT_OURS and b"\0" not in p.read_bytes()
    ]


def imports(path: Path) -> set[str]:
    """Top-level names of all modules that a file imports, wherever it does so."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_importing_resilient_is_light() -> None:
    program = "import sys, resilient; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "resilient" in loaded
    assert not HEAVY & set(loaded)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "launch").glob("examples/*.py")), ids=lambda p: p.name
)
def test_examples_do_not_know_us(path: Path) -> None:
    assert "resilient" not in imports(path)


def test_nothing_is_left_to_be_done() -> None:
    found = []
    for path in tracked():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if MARKERS.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "LICENSE", "Makefile", ".ci/run"])
def test_file_is_there(name: str) -> None:
    assert (ROOT / name).stat().st_size > 0


@pytest.mark.parametrize(
    "folder", sorted(p.name for p in ROOT.iterdir() if p.name in {"csrc", "topologies", "launch"})
)
def test_folder_says_what_it_is_for(folder: str) -> None:
    assert (ROOT / folder / "README.md").stat().st_size > 0


def test_ci_runs_what_a_person_runs() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o100
    assert script.read_text().rstrip().splitlines()[-1] == "make test"
