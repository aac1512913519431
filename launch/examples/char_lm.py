"""A small language model that learns to write Python, one character at a time.

An ordinary script for DistributedDataParallel on CPU: all it knows of its launcher is the
environment that torchrun and resilient-run both give it. It reads the source files of Python's
own standard library, saves a checkpoint every few steps and goes on from the newest one.

    resilient-run --standalone --nproc-per-node 2 launch/examples/char_lm.py --checkpoints /tmp/lm
"""

import argparse
import math
import os
import sysconfig
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

LETTERS = "\n" + "".join(map(chr, range(32, 127)))  # anything else becomes a blank
CONTEXT = 64  # characters that the model sees at once


class CharLM(nn.Module):
    """Character and position embeddings, causal transformer blocks, one projection."""

    def __init__(self, width: int, depth: int, heads: int = 4) -> None:
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS), width)
        self.place = nn.Embedding(CONTEXT, width)
        block = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(LETTERS))

    def forward(self, text: Tensor) -> Tensor:
        """(batch, length) character numbers -> (batch, length, letters) scores of the next."""
        length = text.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        hidden = self.letter(text) + self.place(torch.arange(length))
        scores: Tensor = self.head(self.blocks(hidden, mask=mask, is_causal=True))
        return scores


def read_corpus() -> Tensor:
    """The standard library's top-level modules as character numbers."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = torch.frombuffer(bytearray(b"".join(f.read_bytes() for f in files)), dtype=torch.uint8)
    number = torch.ones(256, dtype=torch.uint8)
    for i, letter in enumerate(LETTERS):
        number[ord(letter)] = i
    return number[text.int()]


def loss_on_windows(model: nn.Module, data: Tensor, size: int, dice: torch.Generator) -> Tensor:
    """Mean loss of predicting each next character in `size` random windows of `data`."""
    starts = torch.randint(len(data) - CONTEXT - 1, (size, 1), generator=dice)
    windows = data[starts + torch.arange(CONTEXT + 1)].long()
    return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


def save(folder: Path, step: int, state: dict[str, object]) -> None:
    """Write under another name, force it to disk, rename: a crash never leaves half a file."""
    temporary = folder / ".saving"
    with temporary.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / f"step-{step:06d}.pt")
    for old in sorted(folder.glob("step-*.pt"))[:-2]:
        old.unlink()


def write(model: nn.Module, prompt: str, length: int) -> str:
    """Continue `prompt`, drawing each character from the model's distribution."""
    text = torch.tensor([[LETTERS.index(letter) for letter in prompt]])
    for _ in range(length):
        odds = F.softmax(model(text[:, -CONTEXT:])[0, -1] / 0.7, dim=-1)
        text = torch.cat([text, torch.multinomial(odds, 1)[None]], dim=1)
    return "".join(LETTERS[i] for i in text[0])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder for checkpoints")
    parser.add_argument("--steps", type=int, default=500, help="optimizer steps in all")
    parser.add_argument("--save-every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--print-every", type=int, default=20, help="steps between loss lines")
    parser.add_argument("--batch", type=int, default=16, help="windows per rank and step")
    parser.add_argument("--width", type=int, default=96, help="size of the hidden state")
    parser.add_argument("--depth", type=int, default=2, help="number of transformer blocks")
    parser.add_argument("--lr", type=float, default=5e-3, help="highest learning rate")
    parser.add_argument("--warmup", type=int, default=40, help="steps to reach it")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = CharLM(args.width, args.depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    def rate(step: int) -> float:  # linear warm-up, then half a cosine down to nothing
        done = max(0, step - args.warmup) / max(1, args.steps - args.warmup)
        return float(min((step + 1) / args.warmup, 0.5 + 0.5 * math.cos(math.pi * done)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    dice = torch.Generator().manual_seed(1 + rank)  # each rank reads other windows
    data = read_corpus()
    training, unseen = data.split([len(data) * 19 // 20, len(data) - len(data) * 19 // 20])

    step = 0
    args.checkpoints.mkdir(parents=True, exist_ok=True)
    found = sorted(args.checkpoints.glob("step-*.pt"))
    if found:
        state = torch.load(found[-1], weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        dice.set_state(state["dice"][rank])
        step = state["step"]
    if rank == 0:
        size = sum(p.numel() for p in model.parameters())
        start = f"going on from {found[-1].name}" if found else "starting from nothing"
        print(f"{len(data):,} characters, {size:,} parameters, {start}", flush=True)

    replica = DistributedDataParallel(model)
    recent, since = [], time.perf_counter()
    while step < args.steps:
        loss = loss_on_windows(replica, training, args.batch, dice)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        step += 1
        recent.append(loss.item())
        if step % args.print_every == 0:
            mean, pace = sum(recent) / len(recent), len(recent) / (time.perf_counter() - since)
            if rank == 0:
                print(f"step {step:4d}  loss {mean:.3f}  {pace:.0f} steps/s", flush=True)
            recent, since = [], time.perf_counter()
        if step % args.save_every == 0 or step == args.steps:
            states = [torch.empty_like(dice.get_state()) for _ in range(world)]
            dist.all_gather(states, dice.get_state())
            if rank == 0:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                    "dice": states,
                    "step": step,
                }
                save(args.checkpoints, step, state)

    if rank == 0:
        model.eval()
        with torch.no_grad():
            loss = loss_on_windows(model, unseen, 512, dice.manual_seed(0))
            print(f"loss on text it has not seen {loss:.3f}; it writes:")
            print(write(model, "def ", 240), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
