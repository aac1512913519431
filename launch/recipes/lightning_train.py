"""A Lightning script that goes on from its newest checkpoint.

    resilient-run --nproc-per-node 8 launch/recipes/lightning_train.py --checkpoints /shared/pl

Lightning sees torchrun's environment and starts no process of its own. It wants to be told the
sizes that the launcher decided: `devices` and `num_nodes` below come from there, so that a restart
with fewer nodes works. Under Slurm too: queueing the job again is left to slurm.sbatch.
"""

import argparse
import os
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Sum(lightning.LightningModule):
    """Learns to add numbers up."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[0].sum(1, keepdim=True))
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--checkpoints", type=Path, required=True, help="shared by all nodes")
    parser.add_argument("--steps", type=int, default=20, help="optimizer steps in all")
    args = parser.parse_args()

    torch.manual_seed(0)
    data = DataLoader(TensorDataset(torch.randn(1024, 16)), batch_size=8)
    # save_last is the file that ckpt_path="last" finds; it is renamed when it is complete.
    keep = ModelCheckpoint(args.checkpoints, every_n_train_steps=10, save_last=True)
    trainer = lightning.Trainer(
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
        strategy="ddp",
        max_steps=args.steps,
        callbacks=[keep],
        logger=False,
        enable_progress_bar=False,
    )
    model = Sum()
    trainer.fit(model, data, ckpt_path="last")
    if trainer.is_global_zero:
        loss = trainer.callback_metrics["loss"].item()
        print(f"ended at step {trainer.global_step}, loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
