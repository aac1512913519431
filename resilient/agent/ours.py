"""Which descendants belong to the run, when the agent lives in a user's own program."""

from pathlib import Path


class OnlyOurs:
    """The processes that a sweep has to keep: all that do not carry the run's mark.

    Workers hand the mark (RESILIENT_RUN_ID) down in their environment. A process that was
    started with a clean environment is missed here; under `resilient-run`, where every
    descendant is ours, nothing is.
    """

    def __init__(self, keep: set[int], run_id: str) -> None:
        self._keep = keep
        self._mark = b"RESILIENT_RUN_ID=" + run_id.encode()

    def __contains__(self, pid: object) -> bool:
        if pid in self._keep:
            return True
        try:
            return self._mark not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return True
