"""The job that `overhead.py` times: a DDP model on two gloo ranks; rank 0 writes step times."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train, and write the seconds of every step after warm-up as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--warm-up", type=int, default=60)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(256, 256) for _ in range(4)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randn(64, 256)
    seconds = []
    for step in range(args.warm_up + args.steps):
        start = time.perf_counter()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step >= args.warm_up:
            seconds.append(time.perf_counter() - start)
    if os.environ["RANK"] == "0":
        args.out.write_text(json.dumps(seconds))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
