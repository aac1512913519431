"""Runs that are started together and looked at one by one."""

from collections.abc import Callable, Iterator

import pytest

from agent.starting import Batch


@pytest.fixture(scope="module")
def new_batch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Batch]]:
    """Makes a batch that ends with the module."""
    made: list[Batch] = []

    def make() -> Batch:
        made.append(Batch(tmp_path_factory.mktemp("batch")))
        return made[-1]

    yield make
    for batch in made:
        batch.close()
