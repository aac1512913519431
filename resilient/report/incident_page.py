"""One incident on a page: what happened, what was done, what it cost, and the last words."""

from pathlib import PurePath

from resilient.model.incident import Incident, IncidentState
from resilient.report.page import Page
from resilient.report.text import duration, moment, ranks, several
from resilient.report.timeline import chart, spans

_SURE = 0.6  # below this confidence the report says so and shows what it rests on
_EVIDENCE_SHOWN = 3
_RESTARTED = {
    IncidentState.OPEN: "restart under way",
    IncidentState.RESTARTING: "all ranks restarted, no sign of training since",
    IncidentState.CLOSED: "all ranks restarted",
}


def put_incident(page: Page, incident: Incident, run_dir: str) -> None:
    """The incident in full, about 15 lines; the last lines of its first rank come last."""
    page.line(_heading(page.width, incident), "bold")
    page.line(incident.sentence, "bold", prefix="  ")
    if incident.confidence < _SURE:
        page.line(f"not certain ({incident.confidence:.0%}); it rests on:", "yellow", prefix="  ")
        for seen in incident.evidence[:_EVIDENCE_SHOWN]:
            page.line(f"{seen.source}: {seen.text}", prefix="    | ")
    page.line(_action(incident), prefix="  then      ")
    if incident.action == "restart":
        page.line(cost(incident), prefix="  cost      ")
        page.line(_temperature(incident), prefix="  came back ")
    if incident.victims:
        page.line(f"{ranks(incident.victims)} failed because of it", prefix="  victims   ")
    for bar in chart(spans(incident.phases), page.width - 12):
        page.line(bar, "cyan", prefix=" " * 12)
    if incident.log:
        path = str(PurePath(run_dir) / incident.log)
        page.line(path, prefix="  log       ", wrap=False)
    if incident.tail:
        page.line(f"  the last it wrote ({_who(incident)}):", "dim")
        for text in incident.tail:
            if text.strip(" ^~") or not text:  # folded, marks under a line point nowhere
                page.line(text, prefix="  | ")


def put_incident_briefly(page: Page, incident: Incident) -> None:
    """The incident in one paragraph, for a run with many."""
    page.line(
        f"{moment(incident.at)}, {incident.class_}: {incident.sentence} "
        f"Then {incident.action}: {cost(incident)}.",
        prefix=f"-- {incident.number}  ",
    )


def _who(incident: Incident) -> str:
    who = "no rank" if incident.first_rank is None else f"rank {incident.first_rank}"
    return f"{who} on {incident.host}" if incident.host else who


def _heading(width: int, incident: Incident) -> str:
    said = (
        f"-- incident {incident.number}, {moment(incident.at)}: {incident.class_}, "
        f"{_who(incident)} "
    )
    return said + "-" * max(2, width - len(said))


def _action(incident: Incident) -> str:
    if incident.action == "restart":
        what = _RESTARTED[incident.state]
    elif incident.action == "stop":
        what = "the run was stopped"
    else:
        what = incident.action
    return f"{what}: {incident.reason}" if incident.reason else what


def came_back(incident: Incident) -> bool:
    """Whether the ranks were seen to work together again."""
    phases = incident.phases
    return phases.first_step_s is not None or phases.first_collective_s is not None


def cost(incident: Incident) -> str:
    """Seconds and steps; says what is not known."""
    phases, parts = incident.phases, spans(incident.phases)
    if not parts:
        said = "time not known"
    else:
        said = duration(parts[-1].end)
        if phases.first_step_s is not None:
            said += " until training again"
        elif phases.first_collective_s is not None:
            said += " until all ranks talked again"
        elif phases.spawned_s is not None:
            said += " until all ranks were started again"
        else:
            said += " so far"
    if incident.steps_lost is None:
        return f"{said}, steps lost not known"
    resumed = "" if incident.resumed_step is None else f" (went on at step {incident.resumed_step})"
    return f"{said}, {several(incident.steps_lost, 'step')} lost{resumed}"


def _temperature(incident: Incident) -> str:
    warm = f"warm ({ranks(incident.warm_ranks)})" if incident.warm_ranks else ""
    if not incident.cold_why:
        return warm or "cold"
    return f"{warm}, the others cold: {incident.cold_why}" if warm else f"cold: {incident.cold_why}"
