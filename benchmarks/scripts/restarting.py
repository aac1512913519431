"""The job that `restarts.py` restarts: initialise, one all-reduce, one step; then rank 1 dies."""

import argparse
import os
import signal
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    """Note an initialisation that worked, and make the launcher restart us."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--last", type=int, required=True, help="attempt that ends well")
    args = parser.parse_args()
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # An attempt that read a dead address waits this long and then fails, which restarts it too.
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    weight = torch.nn.Parameter(torch.ones(1))
    dist.all_reduce(weight.data)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.step()
    with args.notes.open("a") as file:
        file.write(f"{attempt} {rank}\n")
    dist.barrier()
    if attempt < args.last:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()


if __name__ == "__main__":
    main()
