"""Exit codes and signals, as `subprocess` reports them, in words."""

import signal

CRASHES: dict[int, str] = {  # a process does these to itself
    signal.SIGSEGV: "invalid memory access",
    signal.SIGBUS: "memory that is not there: a truncated file, or /dev/shm full",
    signal.SIGABRT: "it aborted itself",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction",
    signal.SIGSYS: "forbidden system call",
    signal.SIGTRAP: "trap",
}
_OF_A_CHILD: set[int] = {*CRASHES, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_MEANINGS = {
    2: "wrong usage, by convention",
    120: "Python could not write its output at the end",
    126: "a shell could not run the command",
    127: "a shell did not find the command",
}


def signal_of(exit_code: int) -> int:
    """The signal that ended the process, or that ended what it had run (128 + n, as shells
    report it); 0 where it ended by a code of its own."""
    if exit_code < 0:
        return -exit_code
    return exit_code - 128 if exit_code - 128 in _OF_A_CHILD else 0


def signal_name(number: int) -> str:
    """SIGKILL, SIGRTMIN+3, or "signal 99" for what has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        if signal.SIGRTMIN < number < signal.SIGRTMAX:
            return f"SIGRTMIN+{number - signal.SIGRTMIN}"
        return f"signal {number}"


def words(exit_code: int) -> str:
    """ "killed by SIGKILL", "exited with 3", "exited with 137 (a command of it was killed …)"."""
    if exit_code < 0:
        return f"killed by {signal_name(-exit_code)}"
    if number := signal_of(exit_code):
        return f"exited with {exit_code} (a command of it was killed by {signal_name(number)})"
    meaning = _MEANINGS.get(exit_code)
    return f"exited with {exit_code}" + (f" ({meaning})" if meaning else "")
