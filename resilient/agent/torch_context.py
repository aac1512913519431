"""Part of the seam: torch's context of started processes, with our way to start and stop one."""

import inspect
import signal
from collections.abc import Callable, Sequence
from subprocess import Popen
from typing import Any

from torch.distributed.elastic.multiprocessing.api import SubprocessContext
from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)

# (local rank, argv, environment, stdout or None, stderr or None) -> the started process
Spawn = Callable[[int, Sequence[str], dict[str, str], int | None, int | None], Popen[bytes]]


class WorkerContext(SubprocessContext):
    """torch's process context, with our way to start and to stop one process."""

    def __init__(self, spawn: Spawn, stop: Callable[[int, float], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._spawn, self._stop = spawn, stop

    def start(self) -> None:
        """As torch's, but signals stay with our own handlers."""
        self._start()
        for tail_log in self._tail_logs:
            tail_log.start()

    def _start(self) -> None:
        spawn = self._spawn

        def popen(handler: Any, args: tuple[str, ...], env: dict[str, str]) -> Popen[bytes]:
            out, err = (f.fileno() if f else None for f in (handler._stdout, handler._stderr))
            return spawn(handler.local_rank_id, args, env, out, err)

        handler_class = type("SpawnHandler", (SubprocessHandler,), {"_popen": popen})
        known = inspect.signature(SubprocessHandler.__init__).parameters
        for local_rank in range(self.nprocs):
            facts = {
                "entrypoint": self.entrypoint,
                "args": self.args[local_rank],
                "env": self.envs[local_rank],
                "stdout": self.stdouts[local_rank],
                "stderr": self.stderrs[local_rank],
                "local_rank_id": local_rank,
                "numa_options": getattr(self, "_numa_options", None),
            }
            self.subprocess_handlers[local_rank] = handler_class(
                **{k: v for k, v in facts.items() if k in known}
            )

    def _close(self, death_sig: signal.Signals, timeout: int = 30) -> None:
        try:
            self._stop(int(death_sig), timeout)
        except Exception:  # our own error: torch's way ends them too
            super()._close(death_sig, timeout)
        for handler in self.subprocess_handlers.values():
            for stream in (handler._stdout, handler._stderr):
                if stream:
                    stream.close()
