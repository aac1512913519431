"""`accelerate launch` with resilient-run's agent instead of torchrun's.

    python launch/recipes/accelerate_launch.py --multi_gpu --num_processes 8 train.py --lr 3e-4

All of `accelerate launch` works: its options, `accelerate config`, FSDP, DeepSpeed. It does not
look for a `torchrun` on PATH, so that `eval "$(resilient shim)"` alone does not reach it: it calls
torch.distributed.run in its own process, and there we take torchrun's place.

Its exit code is 1 for every failure. Where the exit codes matter (75: queue me again, 78: do not),
start the script itself; all that Accelerate needs to know is in the environment:

    ACCELERATE_MIXED_PRECISION=bf16 resilient-run --nproc-per-node 8 train.py --lr 3e-4
"""

import torch.distributed.run as torchrun
from accelerate.commands.launch import launch_command, launch_command_parser

import resilient

if __name__ == "__main__":
    torchrun.elastic_launch = resilient.elastic_launch
    launch_command(launch_command_parser().parse_args())
