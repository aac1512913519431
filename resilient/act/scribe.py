"""The scribe process: drains what the workers print and writes all files of a run.

It does nothing else, so that nothing else can hold a worker's output up: one thread
reads the channels and the agent's messages and never waits for anything slow, one
thread writes to each console, one to the disk. Standard library only: it starts in
some ten milliseconds.

It ends by a goodbye, or when the agent is gone and every channel is at its end. Signals
meant for the job do not end it: the last words of a dying worker go through here.
"""

import os
import resource
import signal
import socket
import sys
import threading

from resilient.act.scribe_loop import Loop
from resilient.act.scribe_slice import ask_for_short_slices

COMM = "rr-scribe"  # by which the keeper knows it
_LEFT_ALONE = {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGCHLD,
    signal.SIGCONT,
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGTRAP,
    signal.SIGSYS,
}


def main(control_fd: int) -> None:
    """Runs the scribe on its end of the socket pair; does not return."""
    _settle_in()
    loop = Loop(socket.socket(fileno=control_fd))
    code = 0

    def crashed(args: threading.ExceptHookArgs) -> None:
        loop.bug = _traceback(args.exc_value)
        loop.wake()

    threading.excepthook = crashed
    try:
        loop.run()
    except BaseException as error:
        loop.tell({"note": f"the output process stopped by an error of ours: {_traceback(error)}"})
        code = 1
    loop.close()
    os._exit(code)  # threads may be in a write that never ends


def _settle_in() -> None:
    """Deaf to signals, known by name, with room for many channels and quick hand-overs."""
    for number in signal.valid_signals() - _LEFT_ALONE:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o077)
    with open("/proc/self/comm", "w") as comm:
        comm.write(COMM)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.setswitchinterval(0.001)
    ask_for_short_slices()


def _traceback(error: BaseException | None) -> str:
    import traceback  # noqa: PLC0415 (slow to import, hardly ever needed)

    return "".join(traceback.format_exception(error))
