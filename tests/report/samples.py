"""Records and run directories as the launcher leaves them, made with the real encoders."""

from pathlib import Path

import msgspec

from resilient.model.diagnosis import EvidenceLine
from resilient.model.incident import Incident, IncidentState, Phases
from resilient.model.run import NodeRun, Run

RUN_ID = "20261130-203312-none-ab12cd"
NODE = "nodeA-0a1b2c3d"
AT = 1_796_070_792.0  # seconds since the epoch


def a_run(**changes: object) -> Run:
    run = Run(
        run_id=RUN_ID,
        version="0.1.0",
        torch_version="2.13.0+cpu",
        started_at=AT,
        argv=("resilient-run", "--standalone", "--nproc-per-node=2", "train.py", "--lr", "0.1"),
        cwd="/home/someone/job",
        nodes=(NodeRun(host="nodeA", agent_id="0a1b2c3d", pid=4242, nproc=2),),
        world_size=2,
        attempts=1,
        ended_at=AT + 41.2,
        exit_code=0,
    )
    return msgspec.structs.replace(run, **changes)


def an_incident(number: int = 1, **changes: object) -> Incident:
    incident = Incident(
        number=number,
        attempt=number - 1,
        at=AT + 7 * number,
        class_="worker_killed",
        first_rank=1,
        host="nodeA",
        sentence="Rank 1 was killed by SIGKILL at step 120; nothing of ours sent it.",
        action="restart",
        reason="1 of 20 restarts this hour for failures that the program did not cause",
        state=IncidentState.CLOSED,
        exit_code=-9,
        confidence=0.9,
        steps_lost=3,
        resumed_step=118,
        warm_ranks=(0, 1),
        victims=(0,),
        evidence=(EvidenceLine(source="exit", text="rank 1: SIGKILL"),),
        tail=("step 119 loss 2.31", "step 120 loss 2.30"),
        log=f"nodes/{NODE}/attempt-{number - 1}/1/stderr.log",
        phases=Phases(
            noticed_s=0.002,
            stopped_s=0.031,
            rendezvous_s=0.035,
            spawned_s=0.041,
            first_collective_s=0.052,
            first_step_s=0.071,
        ),
    )
    return msgspec.structs.replace(incident, **changes)


def fatal_incident(number: int = 2) -> Incident:
    return an_incident(
        number,
        class_="user_error",
        sentence="Rank 0 raised ValueError: bad batch in train.py:31, twice in a row.",
        action="stop",
        reason="the same error in the same phase twice; trying again would fail again",
        exit_code=1,
        steps_lost=None,
        warm_ranks=(),
        first_rank=0,
        log=f"nodes/{NODE}/attempt-{number - 1}/0/stderr.log",
        victims=(1,),
        tail=(
            "Traceback (most recent call last):",
            '  File "/home/someone/job/train.py", line 31, in <module>',
            "    raise ValueError('bad batch')",
            "ValueError: bad batch",
        ),
        phases=Phases(noticed_s=0.0, stopped_s=0.2),
    )


def write_run(folder: Path, run: Run, incidents: tuple[Incident, ...] = ()) -> Path:
    """A run directory with these records."""
    (folder / "nodes" / NODE).mkdir(parents=True)
    (folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(run)))
    for incident in incidents:
        place = folder / "incidents" / f"{incident.number:04d}"
        place.mkdir(parents=True)
        (place / "incident.json").write_bytes(msgspec.json.encode(incident))
    return folder
