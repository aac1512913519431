"""A job on two nodes that goes well, under torchrun and under us, on the same laboratory."""

from pathlib import Path

import pytest
from agent.starting import RESILIENT, TORCHRUN
from netlab.lab import Lab
from netlab.launching import Nodes

pytestmark = pytest.mark.root

SUM = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.tensor([1.0 + RANK])
dist.all_reduce(one)
note("sum", sum=one.item(), group_rank=os.environ["GROUP_RANK"], master=os.environ["MASTER_ADDR"])
dist.destroy_process_group()
"""


@pytest.mark.parametrize("static", [False, True], ids=["c10d", "static"])
def test_both_launchers_run_it(lab: Lab, tmp_path: Path, static: bool) -> None:
    for launcher in (TORCHRUN, RESILIENT):
        folder = tmp_path / launcher
        with Nodes(lab, folder, SUM, nproc=2, launcher=launcher, static=static) as job:
            job.start()
            ended = job.end()
        assert [one.code for one in ended] == [0, 0], job.told()
        notes = job.noted("sum", 4)
        assert {note["sum"] for note in notes} == {1.0 + 2 + 3 + 4}
        assert sorted(note["rank"] for note in notes) == [0, 1, 2, 3]
        assert {(note["host"], note["group_rank"]) for note in notes} in (
            {("h0", "0"), ("h1", "1")},
            {("h0", "1"), ("h1", "0")},
        )
        assert len({note["master"] for note in notes} & {"10.77.2.1", "10.77.2.2"}) == 1
