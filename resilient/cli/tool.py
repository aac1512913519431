"""The command `resilient`: looks at what happened and at how things are set. Loads no torch."""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from resilient import __version__
from resilient.cli import explain, policy, report, shim
from resilient.cli.answer import Answer, Exit, Screen
from resilient.model.errors import ResilientError, Unavailable
from resilient.report.page import put, wants_colour, width_of

_VERBS: dict[str, ModuleType] = {
    "report": report,
    "explain": explain,
    "policy": policy,
    "shim": shim,
}
_EPILOG = """\
examples:
  resilient report                what happened in the latest run
  resilient explain               why it was decided so; decides again and compares
  resilient policy                the RESILIENT_* variables and their values here
  eval "$(resilient shim)"        make `torchrun` mean resilient-run in this shell

Each verb takes --json and then prints one JSON object with a key `schema`.
exit codes: 0 fine, 1 bad news, 2 misuse, 3 undetermined
To launch a job, use `resilient-run` where you would use `torchrun`.
"""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the console script."""
    if sys.stdout is None:  # started with it closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (until the process ends)
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # whoever read us has seen enough
        code = 141
        _silence()
    except OSError as error:  # of standard output, e.g. a full disk; else it is caught below
        sys.stderr.write(f"resilient: cannot write the answer: {error.strerror}\n")
        code = Exit.UNDETERMINED
        _silence()
    sys.exit(code)


def _run(argv: Sequence[str]) -> int:
    parser = _parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as leaving:
        if leaving.code == Exit.MISUSE and argv[:1] == ["shim"]:
            put(sys.stdout, shim.FAILED)
        raise
    if args.verb is None:
        parser.print_help(sys.stderr)
        return Exit.MISUSE
    verb = _VERBS[args.verb]
    screen = Screen(width_of(sys.stdout, os.environ), wants_colour(sys.stdout, os.environ))
    try:
        answer: Answer = verb.answer(args, screen)
    except ResilientError as error:
        code = Exit.UNDETERMINED if isinstance(error, Unavailable) else Exit.MISUSE
        answer = _failure(args, code, str(error))
    except Exception as error:  # ours; exit code 1 would claim an answer
        traceback.print_exc()
        said = (
            f"this is a bug of resilient {__version__} ({type(error).__name__}); please report it"
        )
        answer = _failure(args, Exit.UNDETERMINED, said)
    for note in answer.notes:
        put(sys.stderr, f"resilient {args.verb}: {note}\n")
    put(sys.stdout, json.dumps(answer.record, indent=2) + "\n" if args.json else answer.text)
    return answer.code


def _failure(args: argparse.Namespace, code: Exit, said: str) -> Answer:
    text = shim.FAILED if args.verb == "shim" and not args.check else ""
    return Answer(text, {"schema": 1, "error": said}, code, (said,))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="resilient",
        description="Looks at runs of resilient-run: what happened, and why it was decided so.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"resilient-run {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for name, module in _VERBS.items():
        sub = verbs.add_parser(
            name,
            help=module.HELP,
            description=f"{module.HELP[0].upper()}{module.HELP[1:]}.",
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--json", action="store_true", help="print one JSON object instead")
        module.configure(sub)
    return parser


def _silence() -> None:
    """Keeps the interpreter's own flush at exit from complaining about the same pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
