"""Real topology files, where they lie beside the project."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "shared" / "cases" / "topologies"


def real(name: str) -> bytes:
    """A real file's bytes; skips the test where there is none."""
    if not (path := FOLDER / name).exists():
        pytest.skip(f"no {path}")
    return path.read_bytes()
