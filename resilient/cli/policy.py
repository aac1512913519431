"""`resilient policy`: every knob, its value here, and where that came from."""

import argparse
import os
from typing import Any

from resilient.cli.answer import Answer, Screen
from resilient.model.knob import Knob, show
from resilient.model.policy import ENVIRONMENT, Policy, knobs, parse, table
from resilient.report.masking import mask
from resilient.report.page import Page

HELP = "the RESILIENT_* variables: their values here and where they come from"
EPILOG = """\
resilient-run has no flags of its own beside torchrun's; these variables are its policy.

examples:
  resilient policy
  RESILIENT_WARM_START=off resilient policy    checks a setting without running anything
  resilient policy --markdown                  the table of the README

exit codes: 0 fine, 2 a variable is wrong (all mistakes are listed)
"""
BEGIN, END = "<!-- policy table -->", "<!-- /policy table -->"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument(
        "--markdown", action="store_true", help="describe all variables as a Markdown table"
    )


def answer(args: argparse.Namespace, screen: Screen) -> Answer:
    """Raises Misuse that lists all mistakes in the environment."""
    if args.markdown:  # the same whatever the environment holds
        text = markdown()
        return Answer(text, {"schema": 1, "markdown": text})
    policy, origins = parse(os.environ)
    page = Page(width=screen.width, colour=screen.colour)
    for knob in knobs():
        _put(page, knob, policy, origins[knob.variable])
    record = {
        "schema": 1,
        "variables": [_record(knob, policy, origins[knob.variable]) for knob in knobs()],
    }
    return Answer(page.text(), record)


def markdown() -> str:
    """The README's table with its markers, each on a line of its own."""
    rows = [("Variable", "Allowed", "Default", "What it does"), ("---",) * 4]
    for variable, allowed, default, _, description in table():
        rows.append((f"`{variable}`", allowed, f"`{default}`" if default else "", description))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([BEGIN, *lines, END, ""])


def _put(page: Page, knob: Knob, policy: Policy, origin: str) -> None:
    value = _shown(knob, show(getattr(policy, knob.field)))
    unit = f" {knob.unit}" if knob.unit and value else ""
    page.line(
        f"{knob.variable} = {value or '(not set)'}{unit}   {_origin(origin)}",
        "bold" if origin == ENVIRONMENT else "",
    )
    page.line(knob.description, "dim", prefix="    ")


def _shown(knob: Knob, value: str) -> str:
    return "*****" if knob.secret and value else mask(value)


def _origin(origin: str) -> str:
    return "from the environment" if origin == ENVIRONMENT else "(default)"


def _record(knob: Knob, policy: Policy, origin: str) -> dict[str, Any]:
    value = getattr(policy, knob.field)
    return {
        "variable": knob.variable,
        "value": _shown(knob, value) if isinstance(value, str) else value,
        "origin": origin,
        "default": knob.default,
        "type": knob.type.__name__,
        "allowed": knob.allowed,
        "unit": knob.unit,
        "description": knob.description,
    }
