"""Runs launch/slurm.sbatch as Slurm's batch node would; both nodes are this machine."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SBATCH = ROOT / "launch/slurm.sbatch"
LIMIT_S = 60

_SCONTROL = """\
#!/bin/bash
case $1 in
  show) printf '127.0.0.1\\n127.0.0.1\\n' ;;
  requeue) echo "$2" >>"$STAND_IN/requeued" ;;
esac
"""
# Ends with the code that CODES names for its node; RECORDED is how the run's record says it ended.
_RESILIENT_RUN = """\
#!/bin/bash
codes=($CODES)
run='{"run_id":"r","version":"0","torch_version":"0","started_at":0.0,"argv":[],"cwd":"/","nodes":[],
"world_size":2,"attempts":1,"exit_code":'$RECORDED'}'
mkdir -p "$RESILIENT_RUN_DIR" && echo "$run" >"$RESILIENT_RUN_DIR/run.json"
exit "${codes[SLURM_NODEID]}"
"""


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


class Batch:
    """The batch script in a folder of its own, with stand-ins for Slurm's commands on PATH."""

    def __init__(self, folder: Path, script: str = "") -> None:
        """`script`: what the ranks run."""
        self.folder, self.stand_in = folder, folder / "slurm"
        self.stand_in.mkdir()
        shutil.copy(SBATCH, self.stand_in / "slurm_script")  # Slurm runs a copy from elsewhere
        executable(self.stand_in / "scontrol", _SCONTROL)
        srun = Path(__file__).with_name("srun.py").read_text()
        executable(self.stand_in / "srun", f"#!{sys.executable}\n{srun}")
        (folder / "train.py").write_text(textwrap.dedent(script))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")} | {
            "PATH": f"{self.stand_in}:{BIN}:{os.environ['PATH']}",
            "STAND_IN": str(self.stand_in),
            "SLURM_JOB_ID": str(os.getpid() % 10000),  # the port comes from it
            "SLURM_JOB_NODELIST": "n[1-2]",
            "SLURM_NNODES": "2",
            "SLURM_SUBMIT_DIR": str(folder),
            "PROCS_PER_NODE": "1",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }

    def pretend(self, codes: str, recorded: int | None) -> None:
        """Put a stand-in for resilient-run in its place, with an exit code for each node."""
        executable(self.stand_in / "resilient-run", _RESILIENT_RUN)
        self.env |= {"CODES": codes, "RECORDED": json.dumps(recorded)}

    def start(self, *args: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["bash", self.stand_in / "slurm_script", "train.py", *args],
            cwd=self.folder,
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *args: str) -> tuple[int, str]:
        """Its exit code and its output."""
        return self.end(self.start(*args))

    def end(self, process: "subprocess.Popen[str]") -> tuple[int, str]:
        """Wait for it; its exit code and its output."""
        with process:
            try:
                out, _ = process.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                os.kill(int((self.stand_in / "srun.pid").read_text()), 15)
                out, _ = process.communicate(timeout=LIMIT_S)
                raise AssertionError(f"no end within {LIMIT_S} s:\n{out}") from None
        print(out)
        return process.returncode, out

    def tasks(self) -> list[dict[str, Any]]:
        """argv and environment of each task."""
        return [json.loads(file.read_text()) for file in sorted(self.stand_in.glob("task-*.json"))]

    @property
    def requeued(self) -> list[str]:
        """Ids of the jobs that were given to `scontrol requeue`."""
        file = self.stand_in / "requeued"
        return file.read_text().split() if file.exists() else []
