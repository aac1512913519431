"""The process that the user started: it runs the agent in a child and outlives everything.

    keeper ── agent ── workers, helpers

It imports nothing heavy, holds no state, and does four things: pass signals on, collect
whatever dies, kill what is left when the agent has ended, and end as the agent did. Should it
be killed itself, the agent gets SIGTERM from the kernel.

The agent gets a session of its own. So a signal to the whole process group (a terminal's
Ctrl-C, `timeout`) reaches the job once, through here; and without a controlling terminal the
job may read a terminal on its stdin and write to it without being stopped for that. Ctrl-Z
stops this process only, the job goes on, as under torchrun.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from resilient.act import prctl
from resilient.agent.keeper_dir import discard, inherit, make, private_dir
from resilient.agent.keeper_end import end_as, sweep_all
from resilient.sense.processes import descendants

__all__ = ["private_dir", "run_under_keeper"]

_WISHES = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCONT}
_ECHO_S = 0.1  # `timeout` sends to us and then to our group, a shell hangs up after the terminal

_KEPT_BY_THE_KERNEL = {signal.SIGKILL, signal.SIGSTOP}
_OURS = {signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE}
_FAULTS = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGSYS,
    signal.SIGXFSZ,
}


def run_under_keeper(agent_main: Callable[[], int]) -> NoReturn:
    """Run `agent_main` in a child and end as that child ends: its code, or its signal.

    Call it on the main thread, before anything heavy is imported or started. In the child it
    leaves by `SystemExit`, so that handlers of atexit run there, and only there. As PID 1, where
    no signal can end us, a death by signal n becomes the exit code 128+n.
    """
    keeper = os.getpid()
    strangers = {proc.pid for proc in descendants(keeper)}  # `helper & exec resilient-run …`
    forwarded = set(signal.valid_signals()) - _KEPT_BY_THE_KERNEL - _OURS - _FAULTS
    make()
    _flush()
    # Blocked before the fork: none is lost in between. Blocked ones are never ignored either.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded | {signal.SIGCHLD})
    on_child = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would lose the status
    with contextlib.suppress(OSError):  # a kernel without it: daemons may then escape
        prctl.set_subreaper(True)
    agent = os.fork()
    if agent == 0:
        if on_child is not None:
            signal.signal(signal.SIGCHLD, on_child)
        _become_agent(keeper)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise SystemExit(agent_main())
    status = _attend(agent, forwarded, strangers)
    sweep_all(keep=strangers)
    discard()
    end_as(status)


def _become_agent(keeper: int) -> None:
    os.setsid()
    with contextlib.suppress(OSError):
        prctl.set_subreaper(True)
        prctl.set_pdeathsig(signal.SIGTERM)
    if os.getppid() != keeper:  # it died before the line above
        os._exit(128 + signal.SIGTERM)
    inherit(keeper)


def _attend(agent: int, forwarded: set[signal.Signals], strangers: set[int]) -> int:
    """Pass signals on to the agent and collect children until it has ended; its wait status."""
    last: dict[int, float] = {}
    while True:
        signum = signal.sigwaitinfo(forwarded | {signal.SIGCHLD}).si_signo
        if signum == signal.SIGCHLD:
            status = _collect(agent, strangers)
            if status is not None:
                return status
        elif not _is_echo(signum, last):
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent, signum)


def _is_echo(signum: int, last: dict[int, float]) -> bool:
    """Whether the same wish was passed on a moment ago; `last` says when each was, and is kept."""
    now = time.monotonic()
    if signum in _WISHES and now - last.get(signum, -_ECHO_S) < _ECHO_S:
        return True
    last[signum] = now
    return False


def _collect(agent: int, strangers: set[int]) -> int | None:
    """Reap all that have ended; the agent's wait status once it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 1 << 8  # nothing is known of it: a failure
        if pid == agent:
            return status
        if pid == 0:
            return None
        strangers.discard(pid)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
