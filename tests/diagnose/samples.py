"""Evidence as the launcher records it, and texts as workers really print them."""

import json
from pathlib import Path
from typing import Any

from resilient.diagnose.traceback_text import from_output
from resilient.model.diagnosis import Diagnosis
from resilient.model.evidence import AttemptEvidence, ErrorText, Phase, StoppedWorker, WorkerEnd

OUTPUTS = Path(__file__).parent.parent / "data" / "outputs"
START = 1_796_070_000.0  # seconds since the epoch
HOST = "host-a"


def lines(name: str) -> list[str]:
    return (OUTPUTS / f"{name}.txt").read_text().splitlines()


def error_json(name: str) -> Any:
    return json.loads((OUTPUTS / f"{name}.error.json").read_text())


def error(name: str) -> ErrorText:
    found = from_output(lines(name))
    assert found is not None
    return found


def end(rank: int, exit_code: int, mono: float = 100.0, **more: Any) -> WorkerEnd:
    """`output`: name of a sample that the worker left."""
    sample = more.pop("output", None)
    if sample:
        text = lines(sample)
        more = {"error": from_output(text), "tail": tuple(text[-20:]), **more}
    fields: dict[str, Any] = {"phase": Phase.STEP, "step": 120, **more}
    return WorkerEnd(
        rank=rank,
        local_rank=rank,
        pid=4000 + rank,
        host=HOST,
        exit_code=exit_code,
        mono=mono,
        at=START + mono,
        **fields,
    )


def stopped(rank: int, seconds: float = 2.5, **more: Any) -> StoppedWorker:
    fields: dict[str, Any] = {"phase": Phase.STEP, "step": 7, **more}
    return StoppedWorker(
        rank=rank, local_rank=rank, pid=4000 + rank, host=HOST, seconds=seconds, **fields
    )


def evidence(*ends: WorkerEnd, **more: Any) -> AttemptEvidence:
    latest = max((one.at for one in ends), default=START + 100)
    fields: dict[str, Any] = {"attempt": 0, "started_at": START, "noticed_at": latest, **more}
    return AttemptEvidence(host=HOST, ends=ends, **fields)


def said(diagnosis: Diagnosis) -> str:
    return "\n".join(line.text for line in diagnosis.evidence)
