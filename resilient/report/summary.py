"""The report for a machine. Its keys are scripted against and keep their meaning."""

from collections.abc import Sequence
from typing import Any

from resilient.model.incident import Incident
from resilient.model.run import Run

SCHEMA = 1
_PHASES = ("noticed_s", "stopped_s", "rendezvous_s", "spawned_s", "first_collective_s")


def summary(
    run: Run, incidents: Sequence[Incident], *, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Plain JSON values. Phases are seconds since the fault where that is known, else since

    it was noticed; null is "not known" everywhere, and an `exit_code` of null a run that has
    not ended.
    """
    return {
        "schema": SCHEMA,
        "run_id": run.run_id,
        "attempts": run.attempts,
        "exit_code": run.exit_code,
        "sentence": run.sentence,
        "transport": run.transport,
        "world_size": run.world_size,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "dropped_records": run.dropped_records,
        "off": list(run.off),
        "incidents": [_incident(one) for one in incidents],
        "notes": list(notes),
    }


def _incident(incident: Incident) -> dict[str, Any]:
    return {
        "number": incident.number,
        "at": incident.at,
        "class": incident.class_,
        "first_rank": incident.first_rank,
        "host": incident.host,
        "sentence": incident.sentence,
        "confidence": incident.confidence,
        "action": incident.action,
        "reason": incident.reason,
        "steps_lost": incident.steps_lost,
        "resumed_step": incident.resumed_step,
        "warm_ranks": list(incident.warm_ranks),
        "victims": list(incident.victims),
        "log": incident.log,
        "phases": {name: getattr(incident.phases, name) for name in (*_PHASES, "first_step_s")},
    }
