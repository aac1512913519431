"""The agent behind `resilient-run`: torchrun's command line, run under our driver."""

import os
import re
import socket
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from functools import partial
from pathlib import Path

from resilient.agent.drive import drive
from resilient.agent.fitness import unfit
from resilient.agent.launch import Outcome, as_subreaper, is_python, session_for
from resilient.agent.rebind import rebound
from resilient.agent.recorder import say
from resilient.agent.torch_seam import launch, record, torch_run
from resilient.model.errors import ResilientError
from resilient.model.policy import Policy, parse
from resilient.sense.ports import holder_of

EPILOG = """\
resilient-run takes torchrun's flags and has none of its own. Policy is set by RESILIENT_*
environment variables: `resilient policy` lists them, `resilient report` shows what happened.
"""


def parser() -> ArgumentParser:
    """torch's own parser, with a pointer to the policy."""
    torchs = torch_run.get_args_parser()
    torchs.epilog = EPILOG
    return torchs


def run(
    args: Namespace,
    policy: Policy,
    argv: list[str],
    *,
    outcome: Outcome | None,
    log_dir: str | None = None,
) -> None:
    """Run a parsed command line to its end. Raises what torchrun raises.

    `outcome` takes the report to be printed at the very end; None when called from Python.
    `log_dir` is where torch puts error files when the user named no --log-dir.
    """
    why = unfit()
    if why is not None or policy.passthrough:
        say(f"running plain torchrun: {why or 'RESILIENT_PASSTHROUGH is set'}")
        torch_run.run(args)
        return
    if args.log_dir is None and (args.redirects, args.tee) == ("0", "0"):
        args.log_dir = log_dir  # for error files only, which are copied; logs would be the user's
    hooks = not args.no_python and not args.run_path and is_python(_interpreter())
    with session_for(policy, argv, hooks=hooks, outcome=outcome) as session:
        launcher = launch(partial(drive, session))
        rebound(torch_run.run, elastic_launch=launcher)(args)


def _interpreter() -> str:
    return os.environ.get("PYTHON_EXEC", sys.executable)


def agent_main(argv: list[str], policy: Policy, private_dir: str | None) -> int:
    """The agent process: returns the exit code after printing what torchrun would print."""
    args = parser().parse_args(argv)
    words = [sys.argv[0], *argv]
    log_dir = str(Path(private_dir) / "logs") if private_dir else None
    outcome = Outcome()
    _bound_lookups()
    code = _run_to_the_end(args, policy, words, log_dir, outcome)
    outcome.show()
    if outcome.threads_stuck:
        sys.stdout.flush()
        os._exit(code)
    return code


def _bound_lookups() -> None:
    """Let a question to a silent name server end after a second or two, in this process only.

    torch's store asks for the name of everybody who connects, and answers nobody meanwhile: with
    the resolver's 5 s one lost packet is longer than a node's lease. The C library reads the
    variable once, so it is gone again before there are any workers to inherit it.
    """
    if "RES_OPTIONS" not in os.environ:
        os.putenv("RES_OPTIONS", "timeout:1 attempts:2")
        with suppress(OSError):
            socket.getaddrinfo("localhost", None)  # from a file; has the library read it
        os.unsetenv("RES_OPTIONS")


def _run_to_the_end(
    args: Namespace, policy: Policy, words: list[str], log_dir: str | None, outcome: Outcome
) -> int:
    try:
        record(run)(args, policy, words, outcome=outcome, log_dir=log_dir)
    except (SystemExit, KeyboardInterrupt):
        raise
    except ResilientError as error:  # says what happened and what to do; a traceback adds nothing
        if not outcome.report:
            say(str(error))
        return outcome.exit_code or 1
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        _explain_port(str(error))
        return outcome.exit_code or 1
    return 0


def library_main(argv: list[str]) -> None:
    """torchrun's `main` for Python callers; raises as it does."""
    policy, _ = parse(os.environ)
    args = parser().parse_args(argv)
    with as_subreaper():
        record(run)(args, policy, [sys.argv[0], *argv], outcome=None)


def _explain_port(text: str) -> None:
    """Say who holds a port that could not be bound."""
    if "EADDRINUSE" not in text and "address already in use" not in text.lower():
        return
    for port in dict.fromkeys(int(found) for found in re.findall(r"port[:= ]+(\d{1,5})", text)):
        holder = holder_of(port)
        if holder:
            say(
                f"port {port} is held by {holder}. Use --standalone, or another --master-port or "
                f"port in --rdzv-endpoint, for a second run on this host."
            )
