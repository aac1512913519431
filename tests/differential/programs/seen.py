"""The observables of a worker process, gathered with the standard library only."""

import contextlib
import fcntl
import gc
import json
import locale
import os
import random
import resource
import signal
import stat
import sys
import termios
import threading
import warnings

STREAMS = {0: sys.stdin, 1: sys.stdout, 2: sys.stderr}
STREAM_ATTRIBUTES = ("name", "mode", "encoding", "errors", "newlines", "line_buffering")
STATUS = ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "CapEff", "NoNewPrivs", "Seccomp", "Threads")


def attempt() -> int:
    return int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def stream(number: int) -> dict[str, object]:
    """Everything a program may ask about one of its standard streams."""
    file = STREAMS[number]
    facts: dict[str, object] = {"present": file is not None}
    with contextlib.suppress(OSError):
        mode = os.fstat(number).st_mode
        facts |= {
            "kind": stat.filemode(mode)[0],
            "flags": fcntl.fcntl(number, fcntl.F_GETFL) & ~0o100000,
            "cloexec": fcntl.fcntl(number, fcntl.F_GETFD),
            "isatty": os.isatty(number),
            "leader": None,
        }
    with contextlib.suppress(OSError):
        facts["size"] = list(os.get_terminal_size(number))
    with contextlib.suppress(termios.error):
        mine = termios.tcgetattr(number)
        facts["termios"] = [mine[0], mine[1] & ~termios.OPOST, *mine[2:6]]
    with contextlib.suppress(OSError):
        facts["foreground"] = os.tcgetpgrp(number) == os.getpgrp()
    if file is not None:
        facts |= {name: str(getattr(file, name)) for name in STREAM_ATTRIBUTES}
        facts |= {
            "write_through": getattr(file, "write_through", None),
            "fileno": file.fileno(),
            "file_isatty": file.isatty(),
            "raw": type(getattr(file.buffer, "raw", file.buffer)).__name__,
            "original": file is getattr(sys, f"__{('stdin', 'stdout', 'stderr')[number]}__"),
        }
    return facts


def open_files() -> list[dict[str, object]]:
    """File descriptors other than the standard ones, as this process has them."""
    found = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        with contextlib.suppress(OSError):
            if int(name) > 2:
                flags = fcntl.fcntl(int(name), fcntl.F_GETFD)
                target = os.readlink(f"/proc/self/fd/{name}")
                found.append({"fd": int(name), "cloexec": bool(flags), "target": target})
    return [f for f in found if not str(f["target"]).endswith("/fd")]


def child(command: str) -> str:
    """What a child of this process prints: it sees the C environment and inherited files."""
    with os.popen(command) as pipe:
        return pipe.read()


def inherited() -> str:
    """Descriptors that a program started by fork and exec inherits from this one."""
    path = f"{os.environ['DIFF_OUT']}/inherited-{os.getpid()}"
    os.system(f"ls -1 /proc/self/fd >'{path}'")
    text = read(path)
    os.unlink(path)
    return text


CHILD = (
    "import os, sys; names = sorted(n for n in os.environ if n[:9] != 'RESILIENT'); "
    "print(sys.path, names, 'RESILIENT_HOOK' in os.environ, len(os.listdir('/proc/self/fd')))"
)


def child_python() -> str:
    """What a Python started by this process sees: nothing of a launcher's own may reach it."""
    return child(f'"{sys.executable}" -c "{CHILD}" 2>&1')


def ancestors() -> list[int]:
    pid, chain = os.getpid(), []
    while pid > 1:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
        chain.append(pid)
    return chain


def interpreter() -> dict[str, object]:
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "executable": sys.executable,
        "flags": repr(sys.flags),
        "warnoptions": sys.warnoptions,
        "xoptions": sys._xoptions,
        "filters": [repr(f) for f in warnings.filters],
        "prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.pycache_prefix],
        "write_bytecode": not sys.dont_write_bytecode,
        "path_hooks": len(sys.path_hooks),
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
        "tracing": [sys.gettrace(), sys.getprofile(), threading.gettrace()],
        "breakpoint": sys.breakpointhook is sys.__breakpointhook__,
        "unraisable": sys.unraisablehook is sys.__unraisablehook__,
        "thread_hook": threading.excepthook is threading.__excepthook__,
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "gc": [gc.get_threshold(), gc.isenabled(), gc.get_debug(), gc.get_freeze_count()],
        "dlopen": sys.getdlopenflags(),
        "encodings": [sys.getfilesystemencoding(), sys.getdefaultencoding()],
        "locale": [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()],
        "builtins": sorted(
            vars(__builtins__) if not isinstance(__builtins__, dict) else __builtins__
        ),
        "main_thread": threading.main_thread().native_id == os.getpid(),
        "seeds": [random.random(), hash("resilience")],
    }


def process() -> dict[str, object]:
    with open("/proc/self/status", encoding="utf-8") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    mask = os.umask(0)
    os.umask(mask)
    return {
        "cwd": os.getcwd(),
        "umask": mask,
        "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
        "session": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
        "has_terminal": child("(: </dev/tty) 2>&1; echo $?")[-2:],
        "ancestors": ancestors(),
        "handlers": {s.name: repr(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals},
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "status": {name: status.get(name) for name in STATUS},
        "limits": {
            name: resource.getrlimit(getattr(resource, name))
            for name in dir(resource)
            if name.startswith("RLIMIT_")
        },
        "timers": [signal.getitimer(t) for t in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "affinity": sorted(os.sched_getaffinity(0)),
        "oom": read("/proc/self/oom_score_adj"),
        "personality": read("/proc/self/personality"),
        "cgroup": read("/proc/self/cgroup"),
        "spaces": sorted(os.readlink(f"/proc/self/ns/{n}") for n in os.listdir("/proc/self/ns")),
        "comm": read("/proc/self/comm"),
        "cmdline": read("/proc/self/cmdline").split("\0"),
        "exe": os.readlink("/proc/self/exe"),
        "children": child(f"ps -o pid= --ppid {os.getpid()} | wc -l").strip(),
    }


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        return type(error).__name__


def everything() -> dict[str, object]:
    files = open_files()
    return {
        "environ": dict(os.environ),
        "child_environ": child("exec env -0"),
        "inherited": inherited(),
        "child_python": child_python() if "python" in os.environ["DIFF_DO"] else "",
        "streams": {number: stream(number) for number in STREAMS},
        "files": files,
        **interpreter(),
        **process(),
    }


def torch_facts() -> dict[str, object]:
    """What torch makes of the process; its import must leave the same marks as well."""
    import torch
    import torch.distributed as dist

    return {
        "file": torch.__file__,
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "tasks": len(os.listdir("/proc/self/task")),
        "elastic": dist.is_torchelastic_launched(),
        "seed": torch.initial_seed(),
        "environ": dict(os.environ),
        "path": list(sys.path),
        "filters": [repr(f) for f in warnings.filters],
        "handlers": {s.name: repr(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals},
        "finders": [repr(finder)[:60] for finder in sys.meta_path],
        "default": [str(torch.get_default_dtype()), torch.is_grad_enabled()],
        "attributes": sorted(n for n in vars(torch) if not n.startswith("__")),
        "spec": [torch.__spec__.name, type(torch.__loader__).__name__],
    }


def group_facts(*, own_store: bool) -> dict[str, object]:
    """The process group and the store work."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    ones = torch.full((3,), float(rank + 1))
    dist.all_reduce(ones)
    facts: dict[str, object] = {"sum": ones.tolist(), "rank": rank, "world": world}
    if own_store:
        store = torch._C._distributed_c10d.TCPStore(
            os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, is_master=False
        )
        store.set(f"said/{attempt()}/{rank}", str(rank))
        facts["store"] = [store.get(f"said/{attempt()}/{r}").decode() for r in range(world)]
    dist.barrier()
    dist.destroy_process_group()
    return facts


def write(name: str, result: dict[str, object]) -> None:
    folder = os.environ["DIFF_OUT"]
    with open(f"{folder}/{name}.tmp", "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(result, file, default=str)
    os.rename(f"{folder}/{name}.tmp", f"{folder}/{name}.json")
