"""`resilient report`: what happened in a run."""

import argparse
import os
from pathlib import Path

from resilient.cli.answer import Answer, Exit, Screen
from resilient.report.page import Page
from resilient.report.read import load
from resilient.report.summary import summary
from resilient.report.terminal import headline, render

_LATEST = "resilient-runs/latest"
HELP = "what happened in a run: how it ended, each incident, what it cost"
EPILOG = """\
examples:
  resilient report                      the latest run started in this directory
  resilient report /data/runs/latest    another one
  resilient report --json | jq '.incidents[].sentence'

exit codes: 0 the run ended well, 1 it failed, 2 no such run, 3 it has not ended
(or was killed before it could say how it ended)
"""


def add_run_dir(parser: argparse.ArgumentParser) -> None:
    """The argument RUN_DIR, as every verb that reads a run has it."""
    parser.add_argument(
        "run_dir",
        nargs="?",
        metavar="RUN_DIR",
        type=Path,
        default=Path(os.environ.get("RESILIENT_RUN_DIR", "").strip() or _LATEST),
        help="run directory, or one that holds a `latest` link (default: $RESILIENT_RUN_DIR, "
        f"else {_LATEST})",
    )


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    add_run_dir(parser)
    parser.add_argument("--full", action="store_true", help="show each of many incidents in full")


def answer(args: argparse.Namespace, screen: Screen) -> Answer:
    """Raises Misuse where there is no readable run."""
    folder = load(args.run_dir)
    run, incidents = folder.run, folder.incidents
    text = render(
        run,
        incidents,
        width=screen.width,
        colour=screen.colour,
        run_dir=str(folder.path),
        full=args.full,
    )
    if not text:  # a clean run; the launcher says nothing of it, but here somebody asked
        page = Page(width=screen.width, colour=screen.colour)
        headline(page, run, incidents)
        text = page.text()
    codes = {None: Exit.UNDETERMINED, 0: Exit.FINE}
    return Answer(
        text,
        summary(run, incidents, notes=folder.notes),
        codes.get(run.exit_code, Exit.BAD_NEWS),
        tuple(folder.notes),
    )
