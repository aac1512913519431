"""The job that `overhead.py` times: a DDP model on two gloo ranks; rank 0 writes step times.

Computing takes most of a step: with tiny steps the scheduler's wake-ups are all that one sees.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train, and write the seconds of every step, while settling and after, as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--settle-s", type=float, default=14.0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(512, 512) for _ in range(4)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randn(256, 512)

    def step() -> float:
        start = time.perf_counter()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - start

    settling, over = [], torch.zeros(1)
    until = time.monotonic() + args.settle_s
    while not over:
        settling.append(step())
        over.fill_(time.monotonic() > until)
        dist.all_reduce(over, dist.ReduceOp.MAX)  # all ranks settle for the same steps
    steady = [step() for _ in range(args.steps)]
    if os.environ["RANK"] == "0":
        args.out.write_text(json.dumps({"settling": settling, "steady": steady}))
    dist.barrier()
    os._exit(0)  # gloo's own tear-down aborts now and then


if __name__ == "__main__":
    main()
