"""run.json: what was started, where, and how it ended."""

import msgspec


class NodeRun(msgspec.Struct, frozen=True, kw_only=True):
    """One node's part of a run."""

    host: str
    agent_id: str  # 8 hex digits; with the host it names the node's folder
    pid: int
    nproc: int


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Written at the start with `exit_code` null, and again at the end."""

    schema: int = 1
    run_id: str
    version: str
    torch_version: str
    started_at: float
    argv: tuple[str, ...]  # secrets masked
    cwd: str
    nodes: tuple[NodeRun, ...]
    world_size: int
    attempts: int  # number of attempts started so far
    ended_at: float | None = None
    exit_code: int | None = None
    sentence: str = ""  # how it ended
    transport: str | None = None  # unknown until a later stage watches transports
    dropped_records: int = 0  # lines that a slow or full disk cost us
    off: tuple[str, ...] = ()  # what could not be switched on, and why
