"""The name of a run, the same on all its nodes."""

import os
import re
import secrets
import time

from torch.distributed.elastic.agent.server.api import WorkerGroup

from resilient.agent.failopen import failing_open
from resilient.agent.session import Session


def new_run_id(job: str) -> str:
    """`<UTC>-<job id>-<6 hex>`; the job id is the scheduler's, else the user's --rdzv-id.

    torchrun makes an id up with --standalone, and calls it "none" where there is no other.
    """
    invented = job == "none" or re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", job)
    job = os.environ.get("SLURM_JOB_ID", "local" if invented else job)
    plain = "".join(c if c.isalnum() or c in "._" else "-" for c in job)[:40].strip("-.")
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{plain}-{secrets.token_hex(3)}"


def agree_on_run_id(session: Session, group: WorkerGroup) -> str:
    """A new name, or the one that another node of the group has put in the store first."""
    own = new_run_id(group.spec.rdzv_handler.get_run_id())
    if (group.group_world_size or 1) == 1:
        return own
    with failing_open(session.recorder, "agreeing on a run id"):
        agreed: bytes = group.store.compare_set("resilient/run_id", "", own)  # type: ignore[attr-defined]
        return agreed.decode()
    return own
