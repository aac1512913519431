"""The page counts optimizer steps, at next to no cost, and without a trace in the training."""

import ctypes
import gc
import mmap
import os
import sys
import time
import timeit
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from resilient.model import protocol
from resilient.model.evidence import Phase
from resilient.worker import page, steps

from .harness import environment, run


@pytest.fixture
def counted() -> Iterator[page.Page]:
    """A page into which the steps of this process's optimizers are counted."""
    shared = page.Page()
    hooks = sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks
    before = dict(hooks)
    steps.register(shared)
    yield shared
    for key in hooks.keys() - before.keys():
        del hooks[key]
    steps.torch = None


def optimizer(kind: Any = torch.optim.SGD) -> Any:
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return kind([parameter], lr=0.1)


def seen(counted: page.Page) -> tuple[int, int]:
    """Steps, and the word for the absolute count: 1 more than it; 0 is unknown."""
    assert counted.words[page.STEP_MONO_NS] <= time.monotonic_ns()
    assert counted.words[page.FIRST_STEP_NS] <= time.time_ns()
    return counted.words[page.STEPS], counted.words[page.BASE]


def test_phase_and_count(counted: page.Page) -> None:
    assert counted.words[page.PHASE] == page.LOAD
    plain = optimizer()
    for _ in range(3):
        plain.step()
    assert counted.words[page.PHASE] == page.STEP
    assert seen(counted) == (3, 0)


def test_resumed(counted: page.Page) -> None:
    resumed = optimizer(torch.optim.AdamW)
    resumed.step()
    state = resumed.state_dict()
    state["state"][0]["step"] += 41
    resumed.load_state_dict(state)
    resumed.step()
    assert seen(counted) == (2, 2)  # what held at the first one: the rest is arithmetic


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (100, 101),
        (100.0, 101),
        (torch.tensor(7.0), 8),
        (torch.tensor([7, 8]), 0),
        (torch.tensor(7.0, device="meta"), 0),
        (torch.nn.Parameter(torch.tensor(7.0)), 0),
        (True, 0),
        (-1, 0),
        ("many", 0),
        (float("nan"), 0),
    ],
)
def test_states_of_all_sorts(counted: page.Page, value: Any, base: int) -> None:
    """Of an optimizer that somebody wrote."""
    own = optimizer()
    own.state[own.param_groups[0]["params"][0]] = {"step": value}
    own.step()
    assert seen(counted) == (1, base)


def test_optimizers_in_turn(counted: page.Page) -> None:
    """As in adversarial training: one of them counts."""
    first, second = optimizer(), optimizer()
    for _ in range(4):
        first.step()
        second.step()
    assert seen(counted)[0] == 4


def test_optimizer_per_parameter(counted: page.Page) -> None:
    many = [optimizer() for _ in range(5)]
    for _ in range(3):
        for one in many:
            one.step()
    assert seen(counted)[0] == 3


def test_optimizer_replaced(counted: page.Page) -> None:
    """Counting goes on with the new one, and the old one's memory is not held."""
    first, second = optimizer(), optimizer()
    first.step()
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
    for _ in range(4):
        second.step()
    assert seen(counted)[0] == 4


HEAD = """
import torch
import sys
from torch.optim import SGD, AdamW

def optimizer(kind=SGD):
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return kind([parameter], lr=0.1)
"""
COMPILED = """
def steps(function, **options):
    try:
        compiled = torch.compile(function, backend="eager", **options)
        for _ in range(3): compiled()
        return "done"
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]

for kind in (SGD, AdamW):
    for fullgraph in (False, True):
        o = optimizer(kind)
        print(kind.__name__, fullgraph, steps(o.step, fullgraph=fullgraph))
        torch._dynamo.reset()
        print(kind.__name__, fullgraph, steps(lambda: o.step(), fullgraph=fullgraph))
        torch._dynamo.reset()
        print([state.get("step") for state in o.state.values()], o.param_groups[0]["params"])
# Traced as a whole, our function included, which vanishes.
hooks = list(sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks.values())
def traced(x):
    for hook in hooks: hook(None, (), {})
    return x + 1
print(torch.compile(traced, backend="eager", fullgraph=True)(torch.ones(1)))
print(dict(torch._dynamo.utils.counters["graph_break"]), torch._dynamo.utils.counters["stats"])
o = optimizer(); o.step()
"""


def test_compiled_optimizers(tmp_path: Path) -> None:
    """Results, graph breaks and failures are those that there are without the hook."""
    (tmp_path / "s.py").write_text(HEAD + COMPILED)
    options = {"env": environment(), "cwd": tmp_path}
    plain, observed = (run(mode, ["s.py"], **options) for mode in ("plain", "observe"))
    assert plain.code == 0, plain.stderr
    assert observed.stdout == plain.stdout
    assert observed.page[2] == 1  # compiled steps cannot be counted, the plain one after is


def test_cost(counted: page.Page) -> None:
    """Well under 2 µs a step; the bound is loose for busy machines."""
    fd = os.memfd_create("page")
    os.ftruncate(fd, page.BYTES)
    counted.attach(fd)
    os.close(fd)
    hook = steps._counter(counted)
    one = optimizer()
    best = min(timeit.repeat(lambda: hook(one, (), {}), number=10_000, repeat=20))
    assert counted.words[page.STEPS] == 200_000
    assert best / 10_000 < 2e-6


def test_agrees_with_the_protocol() -> None:
    """This package must not import it, and repeats its numbers."""
    names = (
        "MAGIC PHASE STEPS STEP_MONO_NS BASE FIRST_COLLECTIVE_NS FIRST_STEP_NS MAGIC_VALUE BYTES"
    )
    for name in names.split():
        assert getattr(page, name) == getattr(protocol, f"PAGE_{name}")
    phases = [page.START, page.LOAD, page.STEP, page.TEARDOWN]
    assert [list(Phase)[phase].name for phase in phases] == ["START", "LOAD", "STEP", "TEARDOWN"]


def test_page_is_shared_and_can_be_left() -> None:
    fd = os.memfd_create("page")
    os.ftruncate(fd, page.BYTES)
    ours = page.Page()
    ours.reach(page.LOAD)
    ours.attach(fd)
    with mmap.mmap(fd, page.BYTES) as seen:
        words = (ctypes.c_uint64 * 512).from_buffer(seen)
        assert words[0] == protocol.PAGE_MAGIC_VALUE
        assert words[1] == page.LOAD
        ours.reach(page.STEP)
        ours.reach(page.LOAD)
        assert words[1] == page.STEP
        ours.detach()
        ours.words[page.STEPS] = 9
        assert words[2] == 0
        del words
    os.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        page.Page().attach(fd)
