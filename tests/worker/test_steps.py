"""The page counts optimizer steps, at next to no cost, and without a trace in the training."""

import ctypes
import mmap
import os
import timeit
from pathlib import Path

import pytest

from resilient.model import protocol
from resilient.model.evidence import Phase
from resilient.worker import page, steps

from .harness import environment, run

HEAD = """
import os, sys, torch
from torch.optim import SGD, AdamW, Adagrad, LBFGS

def optimizer(kind=SGD, **options):
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return kind([parameter], **{"lr": 0.1, **options})
"""
# Script, then steps counted and the word for the absolute count (1 more than it, 0 is unknown).
SCRIPTS = {
    "no absolute count": ("o = optimizer()\nfor _ in range(3): o.step()", 3, 0),
    "tensor": ("o = optimizer(AdamW)\nfor _ in range(3): o.step()", 3, 2),
    "resumed": (
        "o = optimizer(AdamW); o.step(); state = o.state_dict()\n"
        "next(iter(state['state'].values()))['step'] += 41\n"
        "o.load_state_dict(state); o.step()",
        2,
        2,
    ),
    "a number": (
        "o = optimizer(AdamW)\n"
        "def set_step(o, *_): next(iter(o.state.values()))['step'] = 100\n"
        "o.register_step_post_hook(set_step)\no.step()",
        1,
        101,
    ),
    "something else": (
        "o = optimizer(AdamW)\n"
        "def set_step(o, *_): next(iter(o.state.values()))['step'] = 'many'\n"
        "o.register_step_post_hook(set_step)\no.step()",
        1,
        0,
    ),
    "two in turn": (
        "a, b = optimizer(), optimizer()\nfor _ in range(4): a.step(); b.step(); b.step()",
        8,
        0,
    ),
    "one per parameter": (
        "many = [optimizer() for _ in range(5)]\nfor _ in range(3):\n    for o in many: o.step()",
        3,
        0,
    ),
    "replaced": ("a, b = optimizer(), optimizer()\na.step()\nfor _ in range(4): b.step()", 4, 0),
    "closure": ("o = optimizer(LBFGS); o.step(lambda: torch.tensor(1.0))", 1, 0),
    "forked child": (
        "o = optimizer(); o.step(); sys.stdout.flush()\n"
        "if os.fork() == 0:\n    o.step(); os._exit(0)\n"
        "os.wait()",
        1,
        0,
    ),
}


def test_counting(tmp_path: Path) -> None:
    """One process, many scripts: each in a forked child would be no worker, so in turn."""
    for name, (script, counted, base) in SCRIPTS.items():
        (tmp_path / "s.py").write_text(HEAD + script)
        result = run("observe", ["s.py"], env=environment(), cwd=tmp_path)
        assert result.code == 0, (name, result.stderr)
        assert (result.page[2], result.page[4]) == (counted, base), name


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
hook = [*sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks.values(), lambda *_: None][0]
def traced(x):
    hook(None, (), {})
    return x + 1
print(torch.compile(traced, backend="eager", fullgraph=True)(torch.ones(1)))
print(dict(torch._dynamo.utils.counters["graph_break"]), torch._dynamo.utils.counters["frames"])
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


def test_cost() -> None:
    """Well under 2 µs a step; the bound is loose for busy machines."""
    import torch

    fd = os.memfd_create("page")
    os.ftruncate(fd, page.BYTES)
    shared = page.Page()
    shared.attach(fd)
    steps.torch = torch
    try:
        hook = steps._counter(shared)
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
        best = min(timeit.repeat(lambda: hook(optimizer, (), {}), number=10_000, repeat=20))
        assert shared.words[page.STEPS] == 200_000
    finally:
        steps.torch = None
        os.close(fd)
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
