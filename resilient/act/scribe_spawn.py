"""Starts the scribe process and lets go of it (agent side)."""

import contextlib
import signal
import socket
import subprocess
import sys
from pathlib import Path

from resilient.act.channels import lift

# Isolated and without `site`: no variable, .pth file or sitecustomize of the user's runs,
# and nothing of ours shadows the standard library.
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]);"
    "from resilient.act.scribe import main; main(int(sys.argv[2]))"
)
_ROOT = str(Path(__file__).resolve().parents[2])
_abandoned: list["subprocess.Popen[bytes]"] = []  # collected when the next one starts


def spawn() -> tuple["subprocess.Popen[bytes]", socket.socket]:
    """Starts a scribe; returns it and our end of its control socket.

    Raises OSError when the process cannot be started. Must be called from a thread that
    may hold signals back for some milliseconds.
    """
    _abandoned[:] = [process for process in _abandoned if process.poll() is None]
    ours, theirs = (
        socket.socket(fileno=lift(end.detach()))
        for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    )
    # Held back until the scribe has made itself deaf to them.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, _ROOT, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
    return process, ours


def let_go(process: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """Waits for the end of a scribe; one that hangs on a dead disk is left behind."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout_s)
        return
    _abandoned.append(process)
