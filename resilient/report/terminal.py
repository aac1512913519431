"""The report for a person, from records in memory. Its first line says what happened."""

import shlex
from collections.abc import Sequence

from resilient.model.incident import Incident
from resilient.model.run import Run
from resilient.report.incident_page import came_back, put_incident, put_incident_briefly
from resilient.report.page import Page
from resilient.report.text import duration, exit_words, moment, several
from resilient.report.timeline import spans

_MEANING = {  # exit codes that are ours, not torchrun's
    69: "The rendezvous store is lost.",
    70: "This node needs recycling: a process on it cannot be killed.",
    75: "Please requeue it.",
    78: "Do not requeue it: it would fail again.",
}
_FULL_AT_START, _FULL_AT_END = 1, 3  # incidents in full where there are many; the rest briefly
_COMMAND_LIMIT = 400  # characters


def render(
    run: Run,
    incidents: Sequence[Incident],
    *,
    width: int,
    colour: bool,
    run_dir: str = "",
    full: bool = False,
) -> str:
    """The final report; "" for a run that ended well without any incident.

    `run_dir` completes the paths of logs. `full` shows every incident in full, however many.
    """
    if run.exit_code == 0 and not incidents:
        return ""
    page = Page(width=width, colour=colour)
    headline(page, run, incidents)
    page.line()
    _facts(page, run, run_dir)
    last_in_brief = len(incidents) - _FULL_AT_END
    for position, incident in enumerate(incidents):
        if not full and _FULL_AT_START <= position < last_in_brief:
            if position == _FULL_AT_START:
                page.line()
            put_incident_briefly(page, incident)
            continue
        page.line()
        put_incident(page, incident, run_dir)
    return page.text()


def headline(page: Page, run: Run, incidents: Sequence[Incident]) -> None:
    """How it ended and why, or that it has not."""
    if run.exit_code is None:
        said, style = "NOT ENDED: still going, or killed before it could say how it ended", "yellow"
    elif run.exit_code == 0:
        after = f" after {several(len(incidents), 'incident')}" if incidents else ""
        said, style = f"FINISHED{after}, exit code 0", "green"
        if incidents:
            said += _total(incidents)
        if run.sentence and not run.sentence.lower().startswith("finished"):  # said already
            said += f". {run.sentence}"
    else:
        why = run.sentence or (incidents[-1].sentence if incidents else "")
        said, style = f"FAILED, {exit_words(run.exit_code)}", "red"
        for more, mark in ((why, ": "), (_MEANING.get(run.exit_code), " ")):
            said += f"{mark}{more}" if more else ""
    page.line(f"resilient-run: {said}", f"bold {style}")


def _total(incidents: Sequence[Incident]) -> str:
    """What all incidents cost together; says only what is known of each of them."""
    steps = [one.steps_lost for one in incidents if one.steps_lost is not None]
    back = [one for one in incidents if came_back(one)]
    said = []
    if len(back) == len(incidents):
        said.append(f"{duration(sum(spans(one.phases)[-1].end for one in back))} lost")
    if len(steps) == len(incidents):
        said.append(f"{several(sum(steps), 'step')} repeated")
    return f": {', '.join(said)}" if said else ""


def _facts(page: Page, run: Run, run_dir: str) -> None:
    """What was run, where, and for how long."""
    lasted = "from" if run.ended_at is None else f"{duration(run.ended_at - run.started_at)} from"
    hosts = sorted({node.host for node in run.nodes})
    where = ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")
    command = shlex.join(run.argv)
    if len(command) > _COMMAND_LIMIT:
        command = f"{command[:_COMMAND_LIMIT]} ..."
    page.line(command, prefix="  command   ")
    page.line(
        f"{several(run.world_size, 'rank')} on {where or '?'}, "
        f"{several(run.attempts, 'attempt')}, {lasted} {moment(run.started_at, date=True)}",
        prefix="  run       ",
    )
    if run_dir:
        page.line(run_dir, prefix="  records   ", wrap=False)
    else:
        page.line(run.run_id, prefix="  run id    ", wrap=False)
    if run.transport:
        page.line(run.transport, prefix="  transport ")
    for reason in run.off:
        page.line(reason, prefix="  off       ")
    if run.dropped_records:
        page.line(
            f"{several(run.dropped_records, 'line')} of the records were lost: the disk of the run "
            "directory was too slow or full",
            "yellow",
            prefix="  lost      ",
        )
