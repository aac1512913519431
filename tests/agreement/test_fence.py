"""A commit of a superseded attempt is refused, however the two race."""

import threading

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from resilient.agent.control_store import TorchControlStore
from resilient.agent.fence import KEY, Fence, Superseded
from resilient.agent.sealing import Seal

RUNS = 100


def fence(store: TCPStore) -> Fence:
    return Fence(TorchControlStore(store, "run", 3.0), Seal(b"key", "run"))


@pytest.fixture
def store() -> TCPStore:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def test_commits_count_until_the_fence_is_raised(store: TCPStore) -> None:
    one = fence(store)
    with pytest.raises(Superseded):
        one.commit(0, "step-1")  # nothing has begun
    one.raise_to(0)
    one.commit(0, "step-1")
    one.raise_to(1)
    with pytest.raises(Superseded, match="attempt 0 is over"):
        one.commit(0, "step-2")
    one.raise_to(0)  # too late to have a meaning
    one.commit(1, "step-3")
    last = one.last()
    assert last is not None
    assert (last.attempt, last.committed, last.committed_in) == (1, "step-3", 1)


def test_a_race(store: TCPStore) -> None:
    """The old attempt commits as quickly as it can while the fence is raised by another agent."""
    old, new = fence(store), fence(store)
    for run in range(RUNS):
        old.raise_to(2 * run)
        done: list[str] = []
        begun = threading.Event()

        def commit_on(
            done: list[str] = done, begun: threading.Event = begun, run: int = run
        ) -> None:
            for step in range(10_000):
                try:
                    old.commit(2 * run, f"{run}-{step}")
                except Superseded:
                    return
                done.append(f"{run}-{step}")
                begun.set()

        thread = threading.Thread(target=commit_on)
        thread.start()
        begun.wait(5)
        new.raise_to(2 * run + 1)
        seen = new.last()
        thread.join(20)
        assert not thread.is_alive()
        after = new.last()
        assert seen == after  # nothing was committed after the fence stood
        assert after is not None
        assert after.attempt == 2 * run + 1
        assert after.committed == done[-1]


def test_a_foreign_value_is_no_fence(store: TCPStore) -> None:
    one = fence(store)
    one.raise_to(3)
    store.set(f"resilient/run/{KEY}", b"x" * 100)
    with pytest.raises(Superseded):
        one.commit(3, "step-1")
    one.raise_to(4)
    one.commit(4, "step-2")
