"""What the control plane costs the store, and how quickly it decides, with many nodes.

Simulates agents on one machine: the real control plane (heartbeats, leases, alarms, reports, the
agreed decision) over a real TCPStore, without workers. Measures a join, a minute of heartbeats,
and the time from the loss of one node, and then of a tenth of them, to the decision at every
agent. `--torch` measures the keep-alive of torch's dynamic rendezvous at its defaults instead.

    python benchmarks/control_plane.py --agents 16,256,1250 --seconds 60
    python benchmarks/control_plane.py --torch --agents 16,64,256

Prints JSON. Bytes are those that the loop-back interface carried, headers and replies included,
so nothing else should use it meanwhile. The growth exponent is the slope of log(operations a
second) over log(agents), between the smallest and the largest number.
"""

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOLDER = Path(__file__).parent / "scripts" / "many_agents.py"
PER_PROCESS = 125
PATIENCE_S = 900.0


class Holder:
    """A process that holds some of the agents; talks JSON lines."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HOLDER), json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: str, **more: Any) -> None:
        """Send a request."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The answer to the last request."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process that held agents died")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()


def loop_back_bytes() -> int:
    """Bytes that the loop-back interface has sent so far."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    line = next(line for line in lines if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


def every(holders: list[Holder], what: str, **more: Any) -> list[dict[str, Any]]:
    """Ask all, then take all answers."""
    for holder in holders:
        holder.ask(what, **more)
    return [holder.answer() for holder in holders]


def spread(values: list[float]) -> dict[str, float]:
    """Median and largest. Ends the benchmark where there is nothing to measure."""
    if not values:
        raise SystemExit("no agent read a decision in time")
    ordered = sorted(values)
    return {"median": round(ordered[len(ordered) // 2], 3), "largest": round(ordered[-1], 3)}


def measured(agents: int, seconds: float, timeout_s: float, *, torchs: bool) -> dict[str, Any]:
    """All figures for one number of agents."""
    from torch.distributed import TCPStore  # noqa: PLC0415 - `--help` needs no torch

    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    numbers = list(range(agents))
    parts = [numbers[i : i + PER_PROCESS] for i in range(0, agents, PER_PROCESS)]
    common = {"port": server.port, "of": agents, "timeout_s": timeout_s, "torch": torchs}
    holders = [Holder({**common, "agents": part}) for part in parts]
    try:
        [holder.answer() for holder in holders]
        start = time.monotonic()
        every(holders, "join")
        result: dict[str, Any] = {"agents": agents, "join_s": round(time.monotonic() - start, 3)}
        every(holders, "settle")
        result["settled_s"] = round(time.monotonic() - start, 3)
        every(holders, "count")
        before, start = loop_back_bytes(), time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - start
        result["bytes_per_s"] = round((loop_back_bytes() - before) / took)
        counted = every(holders, "count")
        result["operations_per_s"] = round(sum(c["operations"] for c in counted) / took, 1)
        result["latency_ms"] = spread([1000 * c["latency_s"] for c in counted])
        if not torchs:
            result["false_losses"] = sum(c["decisions"] for c in counted)
            result["false_fences"] = sum(c["fenced"] for c in counted)
            print(json.dumps(result), file=sys.stderr, flush=True)
            result["loss_of_one_s"] = lose(holders, {agents // 2})
            print(json.dumps(result), file=sys.stderr, flush=True)
            left = sorted(set(range(agents)) - {agents // 2})
            tenth = random.Random(agents).sample(left, agents // 10)
            result["loss_of_a_tenth_s"] = lose(holders, set(tenth))
        return result
    finally:
        for holder in holders:
            holder.end()


def lose(holders: list[Holder], victims: set[int]) -> dict[str, Any]:
    """Kill some agents; seconds until each of the others had read the decision without them."""
    at = time.clock_gettime(time.CLOCK_BOOTTIME)
    every(holders, "lose", agents=sorted(victims))
    answers = every(holders, "decided", victims=len(victims))
    return {
        "alarm": spread([moment - at for a in answers for moment in a["alarmed_at"]]),
        **spread([moment - at for a in answers for moment in a["at"]]),
        "decisions": max((a["decisions"] for a in answers), default=0),
        "lost": len(victims),
    }


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--agents", default="16,256,1250")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--node-timeout-s", type=float, default=2.5)
    parser.add_argument("--torch", action="store_true")
    args = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    rows = []
    for agents in map(int, args.agents.split(",")):
        rows.append(measured(agents, args.seconds, args.node_timeout_s, torchs=args.torch))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    result: dict[str, Any] = {"schema": 1, "torch": args.torch, "rows": rows}
    if len(rows) > 1:
        grown = math.log(rows[-1]["agents"] / rows[0]["agents"])
        for figure in ("operations_per_s", "bytes_per_s"):
            slope = math.log(rows[-1][figure] / rows[0][figure]) / grown
            result[f"exponent_of_{figure}"] = round(slope, 3)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
