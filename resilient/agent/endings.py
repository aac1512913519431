"""How the workers of an attempt ended, with the texts that they left."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from resilient.agent.failopen import failing_open
from resilient.agent.recorder import masked
from resilient.agent.session import Session
from resilient.agent.torch_seam import SeamAgent
from resilient.agent.worker_process import WorkerProcess
from resilient.diagnose.outcome import failed
from resilient.diagnose.process_evidence import speaks_of_a_peer
from resilient.diagnose.traceback_text import from_error_file, from_output
from resilient.model.evidence import ErrorText, WorkerEnd
from resilient.report.masking import mask
from resilient.sense.log_tail import read_json, tail_of_file

TRACEBACK_LINES = 4000  # read to find an exception
TAIL_LINES = 20  # kept for a person
SIGNALS_WITH_TEXT = {-6}  # an abort prints why; the other signals leave no words


def without_secrets(error: ErrorText | None) -> ErrorText | None:
    """The same exception, masked: it is recorded and decided upon in this form."""
    if error is None:
        return None
    related = tuple(mask(text) for text in error.related)
    return msgspec.structs.replace(error, message=mask(error.message), related=related)


class Endings:
    """Ends of workers in the order in which they were seen."""

    def __init__(self, session: Session, agent: SeamAgent, attempt: int) -> None:
        self._session, self._agent, self._attempt = session, agent, attempt
        self.by_local_rank: dict[int, WorkerEnd] = {}

    def add(
        self, worker: WorkerProcess, now: float, *, sent: str = "", released: bool = False
    ) -> None:
        """Record the end of a worker whose pidfd has fired. Reaps it."""
        exit_code = worker.popen.wait()
        end = WorkerEnd(
            rank=worker.rank,
            local_rank=worker.local_rank,
            pid=worker.pid,
            host=self._session.host,
            exit_code=exit_code,
            mono=now,
            at=time.time(),
            sent=sent,
            released=released,
            main_ended=worker.main_ended,
            phase=worker.page.phase,
            step=worker.page.step,
        )
        if not sent and (exit_code > 0 or exit_code in SIGNALS_WITH_TEXT):
            with failing_open(self._session.recorder, "reading what a worker left"):
                end = self.with_texts(end)
        self.by_local_rank[worker.local_rank] = end
        self._session.recorder.event(
            "worker.exit",
            rank=worker.rank,
            pid=worker.pid,
            exit_code=exit_code,
            sent=sent,
            phase=end.phase.value,
            step=end.step,
            main_ended=end.main_ended,
            warm=worker.warm,
        )

    def with_texts(self, end: WorkerEnd) -> WorkerEnd:
        """The same end with the exception it left and the last lines of its output, masked."""
        lines = tuple(mask(line) for line in self._tail(end))
        error = without_secrets(self._error(end, lines))
        return msgspec.structs.replace(end, error=error, tail=lines[-TAIL_LINES:])

    def _error(self, end: WorkerEnd, tail: Sequence[str]) -> ErrorText | None:
        data = read_json(self._agent.error_file(end.local_rank))
        found = from_error_file(data) if data is not None else None
        if data is not None:
            relative = f"nodes/{self._session.node}/attempt-{self._attempt}/{end.rank}/error.json"
            self._session.recorder.file(relative, msgspec.json.encode(masked(data)))
        return found or from_output(tail)

    def _tail(self, end: WorkerEnd) -> tuple[str, ...]:
        stdout, stderr = self._agent.outputs(end.local_rank)
        for path in (stderr, stdout):
            if path and Path(path).is_file():
                lines = tail_of_file(path, TRACEBACK_LINES)
                if lines:
                    return lines
        if self._session.scribe is None or self._session.policy.capture == "off":
            return ()
        return self._session.scribe.tail(self._attempt, end.rank, lines=TRACEBACK_LINES)

    def last_words(self, rank: int) -> tuple[str, ...]:
        """The last lines of a rank's output, read now if they were not read at its end."""
        for end in self.by_local_rank.values():
            if end.rank == rank:
                return end.tail or self.with_texts(end).tail
        return ()

    def failures(self) -> list[WorkerEnd]:
        """Ends that are failures, in order of death, without those that we caused."""
        strict = self._session.policy.strict_exit
        ends = sorted(self.by_local_rank.values(), key=lambda end: end.mono)
        return [end for end in ends if not end.ours and failed(end, strict=strict)]

    def only_victims(self, ends: Sequence[WorkerEnd]) -> bool:
        """Whether all of these only repeat what happened to somebody else."""
        return all(speaks_of_a_peer(end) for end in ends)
