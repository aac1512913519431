"""Part of the seam: is the installed torch one whose private API is as we know it?"""

import inspect
from contextlib import nullcontext
from typing import Any

import torch.distributed.launcher.api as launcher_api
import torch.distributed.run as torch_run
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing.api import SubprocessContext
from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)


def unknown_torch() -> str | None:
    """Why this torch is not one that the seam knows, or None when it is."""
    wanted: list[tuple[Any, str, tuple[str, ...]]] = [
        (LocalElasticAgent, "_invoke_run", ("self", "role")),
        (LocalElasticAgent, "_start_workers", ("self", "worker_group")),
        (LocalElasticAgent, "_initialize_workers", ("self", "worker_group")),
        (LocalElasticAgent, "_monitor_workers", ("self", "worker_group")),
        (LocalElasticAgent, "_exit_barrier", ("self",)),
        (SubprocessContext, "_start", ("self",)),
        (SubprocessContext, "_close", ("self", "death_sig", "timeout")),
        (SubprocessHandler, "_popen", ("self", "args", "env")),
        (torch_run, "run", ("args",)),
        (launcher_api, "launch_agent", ("config", "entrypoint", "args")),
    ]
    for owner, name, parameters in wanted:
        method = inspect.unwrap(getattr(owner, name, None) or nullcontext)
        found = inspect.signature(method).parameters
        first, more = tuple(found)[: len(parameters)], list(found.values())[len(parameters) :]
        if first != parameters or any(_required(parameter) for parameter in more):
            return f"{owner.__name__}.{name} takes {tuple(found)}, not {parameters}"
    uses = [
        (launcher_api.launch_agent, "LocalElasticAgent"),
        (LocalElasticAgent._start_workers, "start_processes"),
        (torch_run.run, "elastic_launch"),
    ]
    for function, name in uses:
        if name not in inspect.unwrap(function).__code__.co_names:
            return f"{function.__name__} does not use {name}"
    return None


def _required(parameter: inspect.Parameter) -> bool:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variadic
