"""Did a worker succeed? Success is latched: once its script had ended well, it had."""

from collections.abc import Iterable

from resilient.diagnose.exit_status import signal_name
from resilient.model.evidence import WorkerEnd


def failed(end: WorkerEnd, *, strict: bool) -> bool:
    """Whether a worker failed. A non-zero code of its own always is a failure; a signal is none
    once its script had ended, unless `strict` (torchrun's verdict)."""
    if end.exit_code == 0:
        return False
    return strict or end.exit_code > 0 or not end.main_ended


def succeeded(ends: Iterable[WorkerEnd], *, strict: bool) -> bool:
    """Whether all of these did. True for none."""
    return not any(failed(end, strict=strict) for end in ends)


def warnings(ends: Iterable[WorkerEnd]) -> tuple[str, ...]:
    """One sentence for each success that torchrun would have called a failure."""
    return tuple(
        f"Rank {end.rank} (pid {end.pid} on {end.host}) had ended its script well and then died "
        f"by {signal_name(-end.exit_code)} while Python shut down; it counts as a success "
        "(RESILIENT_STRICT_EXIT=1 makes it a failure, as under torchrun)."
        for end in ends
        if end.exit_code < 0 and end.main_ended and not end.ours
    )
