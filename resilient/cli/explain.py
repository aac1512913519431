"""`resilient explain`: why it was decided so, and whether deciding again gives the same."""

import argparse

from resilient import __version__
from resilient.cli.answer import Answer, Exit, Screen
from resilient.cli.report import add_run_dir
from resilient.model.run import Run
from resilient.report.page import Page
from resilient.report.read import load
from resilient.report.replay import Replay, as_record, put_replay, replay
from resilient.report.text import several

HELP = "why each decision was made; decides again and compares"
EPILOG = """\
Prints, for each recorded decision, the evidence, the diagnosis and the decision with its
reason, then decides again from the same evidence. A difference is a bug of ours, or comes
from reading with another version than wrote the records.

examples:
  resilient explain                     the latest run started in this directory
  resilient explain /data/runs/20261130-203312-none-ab12cd --json

exit codes: 0 the same, 1 something differs, 2 no such run, 3 nothing to compare with
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    add_run_dir(parser)


def answer(args: argparse.Namespace, screen: Screen) -> Answer:
    """Raises Misuse where there is no readable run."""
    folder = load(args.run_dir)
    replays = replay(folder.decisions)
    page = Page(width=screen.width, colour=screen.colour)
    code = _verdict(page, replays, len(folder.incidents), folder.run)
    for one in replays:
        page.line()
        put_replay(page, one)
    record = {
        "schema": 1,
        "run_id": folder.run.run_id,
        "same": None if code is Exit.UNDETERMINED else code is Exit.FINE,
        "decisions": [as_record(one) for one in replays],
        "notes": folder.notes,
    }
    return Answer(page.text(), record, code, tuple(folder.notes))


def _verdict(page: Page, replays: tuple[Replay, ...], incidents: int, run: Run) -> Exit:
    """Puts the first line: whether all decisions come out the same again."""
    different = sum(bool(one.differences) for one in replays)
    if different:
        by = "" if run.version == __version__ else f" by version {run.version}, now {__version__}"
        page.line(
            f"{different} of {several(len(replays), 'decision')} come out otherwise{by}.",
            "bold red",
        )
        return Exit.BAD_NEWS
    if replays:
        page.line(f"{several(len(replays), 'decision')}, decided again: the same.", "bold green")
        return Exit.FINE
    if incidents:
        page.line(
            f"{several(incidents, 'incident')} but no decisions.jsonl in nodes/: "
            "there is nothing to decide again from.",
            "bold yellow",
        )
        return Exit.UNDETERMINED
    page.line("No decision was recorded: nothing had to be decided.", "bold green")
    return Exit.FINE
