"""Can we do our work here? Where not, plain torchrun runs, and the reason is said."""

import os

from resilient.agent.torch_seam import unknown_torch


def unfit() -> str | None:
    """Why the driver cannot run here, or None when it can."""
    return unknown_torch() or _unfit_kernel()


def _unfit_kernel() -> str | None:
    """Old kernels and some sandboxes refuse the calls by which deaths and progress are seen."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        os.close(os.memfd_create("resilient-try"))
    except OSError as error:
        return f"this kernel or sandbox refuses pidfd_open or memfd_create ({error})"
    return None
