"""Whether the kernel killed something of ours for lack of memory."""

from resilient.sense.cgroup import oom_kills


class OomCounter:
    """Growth of the cgroup's oom_kill counter since an attempt began."""

    def __init__(self) -> None:
        self._before = oom_kills()

    def growth(self) -> int:
        """Number of kills since then; 0 where the counter cannot be read."""
        now = oom_kills()
        return 0 if now is None or self._before is None else max(0, now - self._before)
