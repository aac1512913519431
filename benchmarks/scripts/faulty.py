"""The job that `recovery.py` breaks: two gloo ranks that note the time of what they do.

Appends JSON lines {attempt, rank, pid, event, at} to the file named by --notes. Events: "start",
"collective" (first all-reduce done), "step" (first optimizer step done), "raise".
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
    """Train until the trigger file names this rank and attempt, or for ever."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--ddp", action="store_true", help="a DDP model instead of one all-reduce")
    args = parser.parse_args()
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])

    def note(event: str) -> None:
        line = {"attempt": attempt, "rank": rank, "pid": os.getpid(), "event": event}
        with args.notes.open("a") as file:
            file.write(json.dumps({**line, "at": time.time()}) + "\n")

    note("start")
    dist.init_process_group("gloo")
    model: torch.nn.Module = torch.nn.Linear(16, 16)
    if args.ddp:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    trigger = args.notes.with_suffix(f".raise-{attempt}-{rank}")
    first = True
    while True:
        if args.ddp:
            model(torch.randn(4, 16)).sum().backward()
        else:
            dist.all_reduce(torch.ones(1))
            if first:
                note("collective")
        optimizer.step()
        optimizer.zero_grad()
        if first:
            note("step")
            first = False
        if trigger.exists():
            note("raise")
            # Letters: a number would be normalised, and the same failure twice stops the job.
            raise RuntimeError("broken on purpose: " + "abcdefghijklmnopqrstuvwxyz"[attempt % 26])
        time.sleep(0.01)


if __name__ == "__main__":
    main()
