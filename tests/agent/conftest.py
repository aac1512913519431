"""Runs that are started together and looked at one by one."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent.ended import Ended
from agent.starting import AT_ONCE, Batch


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


@pytest.fixture(scope="module")
def several() -> Iterator[Callable[..., Callable[[str], Ended]]]:
    """Runs `one(name)` for each name in the background; gives a function that waits for it.

    pytest's makers of folders are not for threads: `one` has to use a folder made before.
    """
    pool = ThreadPoolExecutor(AT_ONCE)

    def begin(one: Callable[[str], Ended], names: Iterable[str]) -> Callable[[str], Ended]:
        futures = {name: pool.submit(one, name) for name in names}
        return lambda name: futures[name].result()

    yield begin
    pool.shutdown(cancel_futures=True)
