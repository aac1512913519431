"""Where ours cannot or may not run, torchrun's own code does, and says so."""

from collections.abc import Callable

import pytest

from agent.breaking import broken
from agent.ended import Ended
from agent.starting import Batch

SCRIPT = """
from note import ATTEMPT, RANK, note
import os, signal, sys
note("start", ours="RESILIENT_ATTEMPT" in os.environ)
if RANK == 1 and ATTEMPT == 0:
    os.kill(os.getpid(), signal.SIGKILL)
"""
NO_PIDFD = """
import errno, os
def pidfd_open(*args): raise OSError(errno.EPERM, "not in this sandbox")
os.pidfd_open = pidfd_open
"""
NO_MEMFD = NO_PIDFD.replace("pidfd_open", "memfd_create")
UNKNOWN = """
for module in list(sys.modules.values()):
    if hasattr(module, "unknown_torch"):
        module.unknown_torch = lambda: "torch is from the future"
"""


@pytest.fixture(scope="module")
def batch(new_batch: Callable[[], Batch], tmp_path_factory: pytest.TempPathFactory) -> Batch:
    runs = new_batch()
    for name, patch in {"unknown": UNKNOWN, "pidfd": NO_PIDFD, "memfd": NO_MEMFD}.items():
        env = broken(tmp_path_factory.mktemp("site"), patch=patch)
        runs.add(name, SCRIPT, "--max-restarts=1", env=env, clean=False)  # torchrun leaves files
    env = {"RESILIENT_PASSTHROUGH": "1"}
    runs.add("wish", SCRIPT, "--max-restarts=1", env=env, clean=False)
    runs.add("wish, none left", SCRIPT, env=env, clean=False)
    return runs


def came_back_plainly(ended: Ended) -> None:
    assert ended.code == 0, ended.err
    assert len(ended.noted("start", attempt=1)) == 2
    assert not any(line["ours"] for line in ended.noted("start"))
    assert ended.folder is None


def test_a_torch_that_the_seam_does_not_know(batch: Batch) -> None:
    came_back_plainly(batch["unknown"])
    assert "running plain torchrun: torch is from the future" in batch["unknown"].err


def test_passthrough(batch: Batch) -> None:
    came_back_plainly(batch["wish"])
    assert "running plain torchrun: RESILIENT_PASSTHROUGH is set" in batch["wish"].err


def test_passthrough_has_torchruns_budget(batch: Batch) -> None:
    ended = batch["wish, none left"]
    assert ended.code == 1
    assert not ended.noted("start", attempt=1)


@pytest.mark.parametrize("name", ["pidfd", "memfd"])
def test_a_kernel_or_sandbox_without(batch: Batch, name: str) -> None:
    """Old kernels and seccomp filters refuse these calls; the job must run all the same."""
    ended = batch[name]
    assert ended.code == 0, ended.err
    assert len(ended.noted("start", attempt=1)) == 2
