"""Prints what a script can see of the process it runs in, before and after importing torch."""

import builtins
import faulthandler
import gc
import inspect
import json
import locale
import logging
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings

FIRST_FD = os.open("/dev/null", os.O_RDONLY)
os.close(FIRST_FD)


class Point:
    """Something of __main__."""


def status(*keys):
    with open("/proc/self/status") as file:
        found = dict(line.split(":", 1) for line in file)
    return {key: found[key].strip() for key in keys}


def stream(s):
    return [s.fileno(), s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(),
            s.name, s.mode, type(s.buffer).__name__]  # fmt: skip


def foreign():
    """Modules that are not the standard library's, nor the hook's own."""
    ours = ("_resilient_worker", "__main__", "__mp_main__", "_sysconfigdata")
    return sorted(
        name
        for name in sys.modules
        if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith(ours)
    )


def finders():
    names = [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path]
    return [name for name in names if name not in ("Watch", "Guard")]


def open_files():
    """Descriptors, but those that the hook keeps high up."""
    fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    return [fd for fd in fds if fd < 100]


def ambient():
    return {
        "environ": {k: v for k, v in sorted(os.environ.items()) if k != "RESILIENT_ATTEMPT"},
        "filters": [str(entry) for entry in warnings.filters],
        "finders": finders(),
        "path": sys.path,
        "path_hooks": [str(hook)[:40] for hook in sys.path_hooks],
        "tempdir": tempfile.tempdir,
        "foreign": foreign(),
        "fds": open_files(),
    }


def begin():
    main = sys.modules["__main__"]
    return {
        "first_fd": FIRST_FD,
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "executable": [sys.executable, sys.prefix, sys.base_prefix],
        "main": [main.__file__, main.__name__, repr(main.__spec__), main.__package__,
                 type(main.__loader__).__name__, main.__cached__, sorted(vars(main))],
        "point": [Point.__module__, Point.__qualname__],
        "flags": str(sys.flags),
        "xoptions": sys._xoptions,
        "warnoptions": sys.warnoptions,
        "streams": [stream(s) for s in (sys.stdin, sys.stdout, sys.stderr)],
        "handlers": {int(s): str(signal.getsignal(s)).split(" at 0x")[0]
                     for s in signal.valid_signals()},
        "masks": status("SigBlk", "SigIgn", "SigCgt", "Threads", "Umask", "NoNewPrivs", "Seccomp"),
        "limits": [resource.getrlimit(n) for n in range(resource.RLIMIT_NOFILE + 1)],
        "session": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
        "nice": [os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))],
        "interpreter": [sys.getrecursionlimit(), sys.getswitchinterval(), sys.getdlopenflags(),
                        sys.get_int_max_str_digits(), sys.dont_write_bytecode],
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks, gc.garbage],
        "threads": [threading.active_count(), threading.main_thread().native_id == os.getpid(),
                    threading.stack_size(), threading.current_thread().name],
        "depth": len(inspect.stack()),
        "comm": open("/proc/self/comm").read(),
        "cmdline": open("/proc/self/cmdline").read().split("\0"),
        "oom": open("/proc/self/oom_score_adj").read(),
        "cwd": os.getcwd(),
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__,
                  sys.breakpointhook is sys.__breakpointhook__, repr(sys.unraisablehook),
                  repr(builtins.__import__), sys.gettrace(), sys.getprofile(),
                  threading.excepthook.__name__],
        "exit": [sys.exit.__name__, sys.exit.__doc__, str(inspect.signature(sys.exit))],
        "last": [hasattr(sys, name) for name in ("last_type", "last_value", "last_traceback")],
        "locale": [locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding()],
        "faulthandler": faulthandler.is_enabled(),
        "logging": [logging.root.level, logging.root.handlers, logging.raiseExceptions],
        "customize": ["sitecustomize" in sys.modules, "usercustomize" in sys.modules,
                      getattr(builtins, "customized", None)],
        "clock": time.monotonic() > 0,
        "importer_cache": sorted(p for p in sys.path_importer_cache if "resilient" in p),
    }  # fmt: skip


def with_torch():
    spec = importlib.util.find_spec("torch")
    looked_up = [spec.name, spec.origin, list(spec.submodule_search_locations), spec.cached,
                 spec.has_location, spec.parent, "torch" in sys.modules]  # fmt: skip
    import torch
    from torch.nn import Linear

    return {
        "looked_up": looked_up,
        "spec": [re.sub("0x[0-9a-f]*", "", repr(torch.__spec__)),
                 type(torch.__loader__).__name__, torch.__file__,
                 torch.__spec__.loader is torch.__loader__, vars(torch.__loader__),
                 torch.__spec__._initializing],
        "linear": Linear is torch.nn.Linear,
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads(),
                    len(os.listdir("/proc/self/task"))],
        "initialised": torch.cuda.is_initialized(),
        "seed_fresh": torch.initial_seed() > 0,
        "dynamo": ["torch._dynamo" in sys.modules, "_dynamo" in vars(torch)],
        "attributes": sorted(vars(torch)),
        **ambient(),
    }  # fmt: skip


def with_dynamo():
    import torch._dynamo

    return {"attributes": sorted(vars(torch)), "config": torch._dynamo.__file__, **ambient()}


if __name__ == "__main__":
    early = {**begin(), **ambient()}
    import importlib.util

    report = {"begin": early, "torch": with_torch(), "dynamo": with_dynamo()}
    print(json.dumps(report, default=str))
