"""A DeepSpeed script that goes on from its newest checkpoint.

    resilient-run --nproc-per-node 8 launch/recipes/deepspeed_train.py --checkpoints /shared/ds

In place of `deepspeed --num_gpus 8 …`: DeepSpeed reads torchrun's environment. On several nodes
start it as slurm.sbatch and kubernetes-job.yaml do; DeepSpeed's hostfile and ssh are not needed.
Leave out DeepSpeed's own elasticity: a restart here may have fewer nodes by itself.
"""

import argparse
import os
from pathlib import Path

import deepspeed
import torch
from torch import nn

CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "zero_optimization": {"stage": 1},
    "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
}
SAVE_EVERY = 10  # steps


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--checkpoints", type=Path, required=True, help="shared by all nodes")
    parser.add_argument("--steps", type=int, default=20, help="optimizer steps in all")
    args = parser.parse_args()

    deepspeed.init_distributed(dist_backend="nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=CONFIG
    )
    # All ranks read the same name, or none: `latest` is written when a save is complete.
    found, state = engine.load_checkpoint(args.checkpoints)
    first = state["step"] if found else 0
    torch.manual_seed(first * 1000 + int(os.environ["RANK"]))  # each rank reads other data
    for step in range(first, args.steps):
        data = torch.randn(8, 16, device=engine.device)
        loss = nn.functional.mse_loss(engine(data), data.sum(1, keepdim=True))
        engine.backward(loss)
        engine.step()
        if (step + 1) % SAVE_EVERY == 0:
            engine.save_checkpoint(args.checkpoints, client_state={"step": step + 1})
    if engine.global_rank == 0:
        print(f"steps {first} to {args.steps}, loss {loss.item():.3f}", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
