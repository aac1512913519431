"""Laboratories for tests. Import the fixtures by name into a `conftest.py`."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netlab.lab import Lab, unavailable


@functools.cache
def _why_not() -> str:
    return unavailable()


@pytest.fixture
def new_lab(tmp_path: Path) -> Iterator[Callable[[int], Lab]]:
    """Makes laboratories of so many hosts, which end with the test."""
    if reason := _why_not():
        pytest.skip(f"no network laboratory here: {reason}")
    made: list[Lab] = []

    def make(hosts: int) -> Lab:
        made.append(Lab(tmp_path / f"lab{len(made)}", hosts))
        return made[-1]

    yield make
    for lab in made:
        lab.close()


@pytest.fixture
def lab(new_lab: Callable[[int], Lab]) -> Lab:
    """Two hosts."""
    return new_lab(2)
