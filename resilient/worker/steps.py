"""Counts optimizer steps into the page, through torch's public hook for all optimizers.

The hook costs a fraction of a microsecond, never touches a GPU, and vanishes from code that
torch.compile traces.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any

from .observe import OPTIMIZER, TORCH
from .page import BASE, FIRST_COLLECTIVE_NS, FIRST_STEP_NS, LOAD, STEP, STEP_MONO_NS, STEPS, Page

torch: Any = None  # the module, once it is there; a global, so that torch.compile can resolve it


def register(page: Page) -> None:
    """Start counting, once `torch.optim.optimizer` is imported.

    A torch before 2.6, or one without the hook, only gets the phase.
    """
    global torch  # noqa: PLW0603
    torch = sys.modules[TORCH]
    page.reach(LOAD)
    register_hook = getattr(sys.modules.get(OPTIMIZER), "register_optimizer_step_post_hook", None)
    if register_hook is not None and _version() >= (2, 6):
        register_hook(_counter(page))


def _version() -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", str(getattr(torch, "__version__", "")))
    return tuple(map(int, found.groups())) if found else ()


def _counter(page: Page) -> Any:
    """The hook. Counts one optimizer where a script steps several in turn.

    A model with a discriminator, or with an optimizer per parameter, still makes one step a
    round; another optimizer takes over when it steps twice while the counted one does not.
    Identity, not reference: the hook must not keep an optimizer's memory alive.
    """
    counted = candidate = 0
    first = True
    monotonic = time.monotonic_ns

    def resilient_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        nonlocal counted, candidate, first
        if first:
            if _capturing():
                return
            first = False
            counted = id(optimizer)
            _first_step(page, optimizer)
        words = page.words
        words[STEP_MONO_NS] = monotonic()
        if id(optimizer) != counted:
            if id(optimizer) != candidate:
                candidate = id(optimizer)
                return
            counted = candidate
        candidate = 0
        words[STEPS] += 1

    return resilient_step


def _capturing() -> bool:
    """Whether a CUDA graph is being captured: then nothing of this step has run yet."""
    try:
        return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
    except Exception:
        return False


def _first_step(page: Page, optimizer: Any) -> None:
    try:
        page.words[FIRST_STEP_NS] = time.time_ns()
        page.reach(STEP)
        step = _absolute(optimizer)
        if step is not None:
            page.words[BASE] = 1 + step
        first_collective(page)
    except Exception:  # what cannot be told stays zero; the script's step is what matters
        return


def _absolute(optimizer: Any) -> int | None:
    """Steps that this optimizer has done in all lives, where its own state says so on the CPU."""
    for state in optimizer.state.values():
        step = state.get("step") if isinstance(state, dict) else None
        if step is None:
            continue
        if type(step) is torch.Tensor:
            if step.device.type != "cpu" or step.numel() != 1:
                return None
            step = step.item()
        if type(step) in (int, float) and step >= 0:
            return int(step)
        return None
    return None


def first_collective(page: Page) -> None:
    """Write when this rank issued its first collective, from torch's flight recorder if it can."""
    if torch is None or page.words[FIRST_COLLECTIVE_NS]:
        return
    try:
        dump = sys.modules["torch._C._distributed_c10d"]._dump_fr_trace_json
        entries = json.loads(dump())["entries"]
        page.words[FIRST_COLLECTIVE_NS] = min(entry["time_created_ns"] for entry in entries)
    except Exception:  # no collectives, or a torch that records none
        return
