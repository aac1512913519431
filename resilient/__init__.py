"""resilient-run: torchrun that explains every failure and comes back from it.

Two names are offered to Python callers, as `torch.distributed.run` and
`torch.distributed.launcher` offer them: `resilient.main(argv)` and
`resilient.elastic_launch(config, entrypoint)(*args)`. Both are loaded on first use,
so that importing this package imports nothing heavy.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_LAZY = {"main": "resilient.cli.run", "elastic_launch": "resilient.agent.launch"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'resilient' has no attribute {name!r}")
