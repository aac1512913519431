"""How resilient-run gets into a worker: Python runs this file while it starts.

The agent puts this folder first on PYTHONPATH and describes the worker in RESILIENT_HOOK. Both
are gone again before anything else runs, and a `sitecustomize` of the user's own is run as if
this one did not exist. Nothing of `resilient` is imported by name: the interpreter may be one
that has never heard of it, so the package beside this folder is loaded by its path.

Fail open: whatever goes wrong here, the interpreter goes on to the script as under torchrun.
"""

import os
import sys

TYPE_CHECKING = False  # `typing` is not ours to import here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NAME = "_resilient_worker"
_before = set(sys.modules)


def _take() -> "dict[str, Any] | None":
    """Remove every trace of the hook from this process; return what the agent wrote, if it did."""
    here = os.path.dirname(__file__)
    raw = os.environ.pop("RESILIENT_HOOK", None)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = os.pathsep.join(entry for entry in given if entry != here) or None
    config = None
    if raw is not None:
        try:
            import json

            config = dict(json.loads(raw))
            rest = config["pythonpath"]  # exactly, absence included
        except Exception:
            config = None
    if rest is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = rest
    return config


def _enter(config: "dict[str, Any]") -> "Any":
    """Load the worker package beside this folder under a private name and begin this life."""
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.dirname(here)
    package: Any = type(sys)(_NAME)
    package.__path__ = [folder]
    package.__spec__ = type(sys.__spec__)(_NAME, None, is_package=True)
    package.__spec__.submodule_search_locations = [folder]
    sys.modules[_NAME] = package
    from _resilient_worker import bootstrap  # type: ignore[import-not-found]

    life = bootstrap.enter(config, _before, here)
    sys.path_importer_cache.pop(folder, None)
    return life


def _guarded(config: "dict[str, Any]", function: "Callable[..., Any]", *args: "Any") -> "Any":
    try:
        return function(*args)
    except Exception:
        # A standby is not the user's script yet; without us it must not become one.
        if config.get("mode") == "standby":
            os._exit(1)
        return None


_config = _take() or {}
_life = None
if _config and not sys.flags.no_site:  # under -S it is the script itself that runs `site`
    _life = _guarded(_config, _enter, _config)

_error = None
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401  # the user's own
except Exception as error:  # also its absence, which `site` silently accepts
    _error = error

if _life is not None:
    _guarded(_config, _life)
if _error is not None:
    raise _error
