"""What output capture costs: throughput and latency of a worker's lines, with and without it.

One worker prints into a pipe that this program reads, either directly (as under
torchrun) or through a scribe that also keeps a log. The two take turns. Prints JSON:
medians, spreads (10th and 90th percentile) and counts.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READ = 1 << 20

BULK = """
import os, sys
block = (b"x" * 79 + b"\\n") * 819
for _ in range(int(sys.argv[1]) * (1 << 20) // len(block)):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
"""
LINES = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(0.002)
    os.write(1, b"%d %s\\n" % (time.monotonic_ns(), b"x" * 60))
"""


def agent(code: str, argument: str) -> None:
    """Plays the agent: our stdout is the console, the worker prints through a scribe."""
    sys.path.insert(0, str(ROOT))
    from resilient.act.scribe_client import Scribe  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        scribe = Scribe.start()
        scribe.open_run([f"{folder}/run"], run_id="bench", node="node")
        while scribe.run_dir is None:
            scribe.poll()
            time.sleep(0.01)
        outputs = scribe.outputs(attempt=0, rank=0, stdout=True, stderr=False, console=True)
        worker = subprocess.Popen([sys.executable, "-c", code, argument], stdout=outputs.stdout_fd)
        outputs.close()
        worker.wait()
        scribe.drain(0, timeout_s=60)
        scribe.close(10)


def command(mode: str, code: str, argument: int) -> list[str]:
    if mode == "direct":
        return [sys.executable, "-c", code, str(argument)]
    kind = "bulk" if code == BULK else "lines"
    return [sys.executable, __file__, "--agent", kind, str(argument)]


def throughput(mode: str, mib: int) -> float:
    """MB/s between the first and the last byte read."""
    with subprocess.Popen(command(mode, BULK, mib), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        fd = process.stdout.fileno()
        total = len(os.read(fd, READ))
        start = time.monotonic()
        while data := os.read(fd, READ):
            total += len(data)
            end = time.monotonic()
    if process.returncode or total < (mib << 20) * 0.99:
        raise SystemExit(f"{mode}: {total} bytes came, status {process.returncode}")
    return total / (end - start) / 1e6


def latencies(mode: str, count: int) -> list[float]:
    """Microseconds from a line's write to its arrival here."""
    found = []
    with subprocess.Popen(command(mode, LINES, count), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        fd = process.stdout.fileno()
        while data := os.read(fd, READ):
            now = time.monotonic_ns()
            found += [(now - int(line.split()[0])) / 1e3 for line in data.splitlines()]
    return found[len(found) // 10 :]  # the first are warming up


def summary(values: list[float]) -> dict[str, float]:
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    middle = statistics.median(values)
    figures = {"median": middle, "p10": tenths[0], "p90": tenths[-1]}
    return {key: round(value, 1) for key, value in figures.items()} | {"count": len(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=200, help="MiB per throughput run")
    parser.add_argument("--lines", type=int, default=1000, help="lines per latency run")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each kind")
    parser.add_argument("--agent", nargs=2, metavar=("KIND", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.agent:
        agent(BULK if options.agent[0] == "bulk" else LINES, options.agent[1])
        return
    rates: dict[str, list[float]] = {"direct": [], "scribe": []}
    delays: dict[str, list[float]] = {"direct": [], "scribe": []}
    for _ in range(options.repeats):
        for mode, found in rates.items():
            found.append(throughput(mode, options.mib))
            delays[mode] += latencies(mode, options.lines)
    result = {
        "throughput_mb_per_s": {mode: summary(found) for mode, found in rates.items()},
        "line_latency_us": {mode: summary(found) for mode, found in delays.items()},
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
