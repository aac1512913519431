"""What names this machine, however its host name is set."""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """A name of the machine's run since it was switched on, the same in all its containers.

    "" where the kernel does not tell.
    """
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
