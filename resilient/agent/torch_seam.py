"""The seam: with its parts (torch_context, torch_known, fresh_store) the only code that touches
private API of torch.distributed.elastic.

torch hard-codes which agent and which process starter it uses. Rather than copy its
functions, or patch its modules for everybody in the process, we take a private copy of the
few functions concerned with one global name replaced each (`rebound`). Everything else
(environment of the workers, rendezvous, error files, events, exit barrier) stays torch's own
code of whichever release is installed.
"""

import inspect
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from subprocess import Popen
from typing import Any

import torch.distributed.launcher.api as launcher_api
import torch.distributed.run as torch_run
from torch.distributed.elastic.agent.server.api import (
    RunResult,
    Worker,
    WorkerGroup,
    WorkerState,
)
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import PContext
from torch.distributed.elastic.multiprocessing import start_processes as torch_start_processes
from torch.distributed.elastic.multiprocessing.api import SignalException, SubprocessContext
from torch.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
    record,
)
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from resilient.agent.decided_rendezvous import Met, decided, interrupted, node_limits
from resilient.agent.fresh_store import fresh_store
from resilient.agent.rebind import rebound
from resilient.agent.torch_context import Spawn, WorkerContext
from resilient.agent.torch_known import unknown_torch

__all__ = [
    "ChildFailedError",
    "ProcessFailure",
    "RunResult",
    "SeamAgent",
    "SignalException",
    "Spawn",
    "launch",
    "launcher_api",
    "record",
    "torch_run",
    "unknown_torch",
]

Ranked = Callable[[], list[Worker]]


class SeamAgent(LocalElasticAgent):
    """torch's agent, driven by a function of ours instead of its own polling loop."""

    drive: "Callable[[SeamAgent], RunResult]"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.spawn: Spawn | None = None  # set by the driver; None starts workers as torch does
        self.stop_workers: Callable[[int, float], None] = lambda signum, grace: None
        self.on_rendezvous: Callable[[], None] = lambda: None
        self._ranked: Ranked | None = None
        # Goes around what the job can do without; an error of ours ends there.
        self.careful: Callable[[str], AbstractContextManager[None]] = lambda what: nullcontext()

    def _invoke_run(self, role: str = "default") -> RunResult:
        return type(self).drive(self)

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        self.on_rendezvous()
        start = rebound(LocalElasticAgent._start_workers, start_processes=self._start_processes)
        pids: dict[int, Any] = start(self, worker_group)
        return pids

    def _start_processes(self, **kwargs: Any) -> PContext:
        if self.spawn is None or not isinstance(kwargs.get("entrypoint"), str):
            return torch_start_processes(**kwargs)
        kwargs.pop("start_method", None)
        known = inspect.signature(SubprocessContext.__init__).parameters
        context = WorkerContext(
            self.spawn, self.stop_workers, **{k: v for k, v in kwargs.items() if k in known}
        )
        try:
            context.start()
        except BaseException:
            context.close()
            raise
        return context

    # What the driver may ask for; everything else is private to torch.

    @property
    def group(self) -> WorkerGroup:
        """The worker group: ranks, addresses, the store of the control plane."""
        return self._worker_group

    @property
    def is_command(self) -> bool:
        """Whether the workers are commands; else they are Python functions."""
        return isinstance(self.group.spec.entrypoint, str)

    @property
    def stop_grace_s(self) -> float:
        """torchrun's --shutdown-timeout in seconds."""
        return float(getattr(self, "_shutdown_timeout", 30))

    def begin_as_decided(self, attempt: int, meet: Callable[[], Met], workers: Ranked) -> None:
        """Start the workers of an attempt whose members are known.

        `meet` gives this node's place, `workers` its workers with their ranks. Raises what they
        raise.
        """
        self._remaining_restarts = self.group.spec.max_restarts - attempt
        self.group.state = WorkerState.INIT
        self._store = None
        self.group.store = None
        self._ranked = workers
        try:
            with decided(self.group.spec.rdzv_handler, meet):
                self._initialize_workers(self.group)
        finally:
            self._ranked = None

    def _assign_worker_ranks(
        self, store: Any, group_rank: int, group_world_size: int, spec: Any
    ) -> list[Worker]:
        if self._ranked is not None:
            return self._ranked()
        ranked: list[Worker] = super()._assign_worker_ranks(
            store, group_rank, group_world_size, spec
        )
        return ranked

    def begin(self, attempt: int, look: Callable[[], None] | None = None) -> None:
        """Rendezvous and start the workers of an attempt.

        Every attempt after the first meets over a store server of its own, so that no address
        of a dead process can be read. `look` is called while the rendezvous waits, and may raise.
        Raises what the rendezvous raises.
        """
        self._remaining_restarts = self.group.spec.max_restarts - attempt
        self.group.state = WorkerState.INIT
        if look is not None:
            with interrupted(self.group.spec.rdzv_handler, look):
                self._initialize_workers(self.group)
            return
        if attempt:
            self._store = None
            self.group.store = None
            with ExitStack() as stack:
                nodes = self.group.group_world_size or 1
                with self.careful("making a fresh store"):
                    stack.enter_context(fresh_store(self.group.spec.rdzv_handler, nodes))
                self._initialize_workers(self.group)
        else:
            self._initialize_workers(self.group)

    def process(self, local_rank: int) -> Popen[bytes]:
        """The started process of a local rank (commands only)."""
        popen: Popen[bytes] = self._pcontext.subprocess_handlers[local_rank].proc  # type: ignore[union-attr]
        return popen

    def outputs(self, local_rank: int) -> tuple[str, str]:
        """Paths that torch redirected stdout and stderr to, "" where it did not."""
        context = self._pcontext
        return (context.stdouts[local_rank], context.stderrs[local_rank]) if context else ("", "")

    def error_file(self, local_rank: int) -> str:
        """Path of the error file of a local rank, "" where there is none."""
        return str(self._pcontext.error_files.get(local_rank, "")) if self._pcontext else ""

    def pids(self) -> dict[int, int]:
        """Process ids by local rank."""
        return self._pcontext.pids() if self._pcontext else {}

    def close_group(self, signum: int, grace_s: float) -> None:
        """Stop what runs of the group and torch's log followers; the group is then stopped."""
        self._shutdown(signal.Signals(signum), int(grace_s))
        self.group.state = WorkerState.STOPPED

    def tick(self) -> RunResult:
        """One step of torch's own monitoring: polls, and on a failure stops the group."""
        result: RunResult = self._monitor_workers(self.group)
        return result

    @property
    def most_nodes(self) -> int:
        """The upper bound of --nnodes."""
        return node_limits(self.group.spec.rdzv_handler)[1]

    @property
    def fixed_membership(self) -> bool:
        """Whether no other node can ever join, so that nobody needs to be asked."""
        handler = self.group.spec.rdzv_handler
        settings = getattr(handler, "settings", None)
        return isinstance(handler, StaticTCPRendezvous) or getattr(settings, "max_nodes", 0) == 1

    def waiting_nodes(self) -> int:
        """How many nodes wait to join, as torchrun asks before it restarts to take them in."""
        return int(self.group.spec.rdzv_handler.num_nodes_waiting())

    def succeed(self) -> None:
        """Wait for the other nodes, as torchrun does after success."""
        self.group.state = WorkerState.SUCCEEDED
        self._exit_barrier()  # type: ignore[no-untyped-call]

    def plain_run(self) -> RunResult:
        """Run as torchrun does."""
        result: RunResult = LocalElasticAgent._invoke_run(self)
        return result


def launch(drive: Callable[[SeamAgent], RunResult]) -> Any:
    """torch's `elastic_launch` class, whose agent is driven by `drive`."""
    agent_class = type("DrivenAgent", (SeamAgent,), {"drive": staticmethod(drive)})
    launch_agent = rebound(launcher_api.launch_agent, LocalElasticAgent=agent_class)
    call = rebound(launcher_api.elastic_launch.__call__, launch_agent=launch_agent)
    return type("elastic_launch", (launcher_api.elastic_launch,), {"__call__": call})


def signals_to_handle() -> list[str]:
    """Names from --signals-to-handle, as torch hands them on."""
    names = os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT")
    return [name.strip() for name in names.split(",") if name.strip()]
