"""What agent and worker say to each other, and the page of memory that they share.

Messages travel over one AF_UNIX stream socketpair per worker: 4 bytes length (big endian),
then a JSON object with a key "t" (the type). The worker side (`worker/`) is written in plain
dictionaries, since it must not import this module; these records check what comes in.

worker → agent
    hook        the bootstrap runs: {pid, mode}
    observed    before the first import of torch (attempt 0): see `Observed`
    unfit       instead of `observed`: no standby could be its equal: {why}
    late        before the first import of torch._dynamo: {env: {...changed...}, gone: [...]}
    ready       a standby waits: {late: bool, seconds: float}
    cold        a standby started over as a cold worker: {why}
    late_mismatch   the late group did not match; the worker leaves with LATE_MISMATCH_EXIT: {why}
    main_ended  the script's main returned or raised SystemExit(0)
    bug         our own error inside the worker: {text}

agent → worker
    plan        how a standby preloads: see `Plan`
    go          be the worker: {env: {...whole environment...}, cwd}; file descriptors for
                stdout and stderr come with its first byte (SCM_RIGHTS), then the page

The page: one memfd of 4096 bytes per worker, 8-byte little-endian unsigned words. The worker
writes, the agent reads; each word is written whole.
"""

import msgspec

MESSAGE_LIMIT = 8 << 20  # bytes; longer is refused
LATE_MISMATCH_EXIT = 117  # reserved exit code of a worker whose late group did not match
PAGE_BYTES = 4096

# Word numbers in the page.
PAGE_MAGIC = 0  # PAGE_MAGIC_VALUE once the bootstrap has mapped it
PAGE_PHASE = 1  # index into the values of model.evidence.Phase, in order
PAGE_STEPS = 2  # optimizer steps done in this life
PAGE_STEP_MONO_NS = 3  # CLOCK_MONOTONIC of the last one
PAGE_BASE = 4  # 1 + absolute step count after the first optimizer step; 0 is unknown
PAGE_FIRST_COLLECTIVE_NS = 5  # CLOCK_REALTIME at which this rank issued its first collective
PAGE_FIRST_STEP_NS = 6  # CLOCK_REALTIME of the first optimizer step
PAGE_MAGIC_VALUE = 0x52524E5031

# The agent puts the hook in with these; the hook removes both before anything else runs.
HOOK_VARIABLE = "RESILIENT_HOOK"  # JSON: {"mode", "fd", "page", "ppid", "pythonpath"}


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What a cold worker had done to itself before it first imported torch."""

    env: dict[str, str]  # variables that changed or appeared since start
    gone: tuple[str, ...]  # variables that were removed since start
    affinity_changed: bool
    dlopen_flags_changed: bool
    roots: tuple[str, ...]  # third-party top-level modules already imported, in order
    native: tuple[str, ...]  # native libraries mapped that the standard library does not bring
    torch_path: str  # directory that `import torch` resolves to
    forked: bool = False  # it had forked before: its children have no torch, a standby's would


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """Environment changes before the first import of torch._dynamo."""

    env: dict[str, str]
    gone: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a standby is to preload: what was observed of the rank that it stands in for."""

    roots: tuple[str, ...]
    env: dict[str, str]
    gone: tuple[str, ...]
    torch_path: str
    late: Late | None = None
    given: dict[str, str] | None = None  # the environment that the agent starts it with
