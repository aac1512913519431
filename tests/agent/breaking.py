"""Puts bugs into the agent, and only there, by a `sitecustomize` on PYTHONPATH."""

from pathlib import Path

_SITE = '''
import importlib.util, sys

WHERE, NAMES, PATCH = "resilient.agent.command", {names!r}, {patch!r}


def broken(*args, **kwargs):
    raise ZeroDivisionError("a bug of ours")


def replace(name):
    """Whatever modules of ours know under that name, be it `function` or `Class.method`."""
    first, _, rest = name.partition(".")
    modules = [module for name, module in sys.modules.items() if name.startswith("resilient.")]
    having = [module for module in modules if hasattr(module, first)]
    if not having:
        raise SystemExit(f"nothing of ours is called {{name}}")
    for module in having:
        setattr(getattr(module, first), rest, broken) if rest else setattr(module, first, broken)


class After:
    """Runs once the agent has imported everything."""

    def find_spec(self, name, path=None, target=None):
        if name != WHERE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            for name in NAMES:
                replace(name)
            exec(PATCH, dict(globals()))

        spec.loader.exec_module = exec_module
        return spec


if any(word.endswith("/resilient-run") for word in sys.orig_argv):
    sys.meta_path.insert(0, After())
'''


def broken(folder: Path, *names: str, patch: str = "") -> dict[str, str]:
    """Environment of a launcher whose functions of these names raise, or that runs `patch`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_SITE.format(names=names, patch=patch))
    return {"PYTHONPATH": str(folder)}
