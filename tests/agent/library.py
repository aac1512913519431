"""Programs that call resilient-run as a library, and the worker that they run."""

# A program with a child, handlers and descriptors of its own. WHAT is done in the middle.
PROGRAM = """
import ctypes, gc, os, signal, subprocess, sys, threading, warnings
from pathlib import Path
from note import HERE, note

WORKER = os.path.join(HERE, "worker.py")


def double(rank, factor):
    return int(os.environ["RANK"]) * factor + rank


def fail(*_):
    if os.environ["RANK"] == "1":
        raise ValueError("a function failed")
    import time
    time.sleep(60)


def config(**more):
    from torch.distributed.launcher.api import LaunchConfig
    settings = dict(min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="mine", monitor_interval=0.1,
                    rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=0)
    return LaunchConfig(**{**settings, **more})


def subreaper():
    flag = ctypes.c_int()
    ctypes.CDLL(None).prctl(37, ctypes.byref(flag), 0, 0, 0)
    return flag.value


def set_subreaper(on):
    ctypes.CDLL(None).prctl(36, on, 0, 0, 0)


def state():
    gc.collect()
    handlers = {int(number): str(signal.getsignal(number)) for number in
                (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)}
    fds = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            fds.append(os.readlink(f"/proc/self/fd/{fd}").partition(":[")[0])
        except OSError:
            pass
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {"subreaper": subreaper(), "handlers": handlers, "fds": sorted(fds),
            "children": children,
            "variables": sorted(k for k in os.environ if k.startswith(("RESILIENT", "TORCHEL")))}


def mine(number, frame):
    pass


def main():
    import resilient
    import torch.distributed.run
    child = subprocess.Popen(["sleep", "600"])
    signal.signal(signal.SIGTERM, mine)
    once(resilient)  # what is loaded on first use, is
    before = state()
    once(resilient)
    after = state()
    child.poll()
    note("state", before=before, after=after, child=child.returncode)
    child.kill()
    child.wait()


def once(resilient):
WHAT


if __name__ == "__main__":
    main()
"""
WORKER = """
import os, sys
from note import ATTEMPT, note
note("worker", argv=sys.argv[1:])
if "fail" in sys.argv and os.environ["RANK"] == "1":
    raise ValueError("a command failed")
if "once" in sys.argv and os.environ["RANK"] == "1" and ATTEMPT == 0:
    os.kill(os.getpid(), 9)
"""
WHATS = {
    "command comes back": """
    resilient.elastic_launch(config(), sys.executable)(WORKER, "once")
    """,
    "command fails": """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    try:
        resilient.elastic_launch(config(), sys.executable)(WORKER, "fail")
    except ChildFailedError as error:
        note("error", first=error.get_first_failure()[0], text=str(error))
    """,
    "function": """
    value = resilient.elastic_launch(config(), double)(5, 10)
    note("value", value=value)
    """,
    "function fails": """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    try:
        resilient.elastic_launch(config(), fail)()
    except ChildFailedError as error:
        note("error", first=error.get_first_failure()[0], text=str(error))
    """,
    "main": """
    resilient.main(["--standalone", "--nproc-per-node=2", WORKER, "b"])
    """,
    "subreaper": """
    set_subreaper(1)
    resilient.elastic_launch(config(), sys.executable)(WORKER, "a")
    note("flag", flag=subreaper())
    set_subreaper(0)
    """,
    "thread": """
    found = []
    def run():
        found.append(resilient.elastic_launch(config(), sys.executable)(WORKER, "c"))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    note("value", value=found[0])
    """,
    "misuse": """
    os.environ["RESILIENT_WORM_START"] = "off"
    try:
        resilient.elastic_launch(config(), sys.executable)(WORKER, "a")
    except resilient.model.errors.Misuse as error:
        note("error", first=0, text=str(error))
    finally:
        del os.environ["RESILIENT_WORM_START"]
    """,
}
