"""`resilient shim`: shell code that makes `torchrun` mean resilient-run in this shell."""

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from resilient.cli.answer import Answer, Exit, Screen
from resilient.cli.shim_folder import MARK, command, prepare
from resilient.model.errors import Misuse

HELP = "shell code that makes `torchrun` mean resilient-run, for tools that call it by name"
EPILOG = """\
Puts a folder of yours with a `torchrun` that runs this environment's resilient-run first on
PATH. It lasts as long as the shell; nothing of torch is changed. `python -m
torch.distributed.run` is not a `torchrun` on PATH and stays what it is.

examples:
  eval "$(resilient shim)"                      bash, zsh, sh
  resilient shim --shell fish | source          fish
  eval `resilient shim --shell csh`             csh, tcsh
  resilient shim --check                        which torchrun is found first?

exit codes: 0 fine, 1 another torchrun is found first (--check), 2 it cannot be set up; then
the shell code is `false`, so that `eval` fails too
"""
FAILED = "false\n"  # what eval gets instead of code: it changes nothing and fails
_HEAD_BYTES = 4096  # of a found torchrun, to tell whose it is


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument(
        "--shell", choices=sorted(_DIALECTS), default="sh", help="dialect (default: sh)"
    )
    parser.add_argument(
        "--check", action="store_true", help="say which torchrun is found first; change nothing"
    )


def answer(args: argparse.Namespace, screen: Screen) -> Answer:
    """Raises Misuse where the folder cannot be made or named in this shell."""
    del screen
    if args.check:
        return _check()
    folder = prepare()
    code = _DIALECTS[args.shell](str(folder))
    record = {
        "schema": 1,
        "folder": str(folder),
        "torchrun": str(folder / "torchrun"),
        "command": command(),
        "shell": args.shell,
        "code": code,
    }
    hint = 'This is shell code; to use it: eval "$(resilient shim)"'
    notes = (hint,) if sys.stdout.isatty() and not args.json else ()
    return Answer(code, record, notes=notes)


def _check() -> Answer:
    found = shutil.which("torchrun")
    mine = "exec " + shlex.join(command())
    if found is None:
        said, state, code = "No torchrun is on PATH.", "none", Exit.BAD_NEWS
    elif (head := _head(Path(found))) is None or MARK not in head:
        said, state, code = f"torchrun is {found}, not resilient-run.", "other", Exit.BAD_NEWS
    elif mine not in head:
        said, state, code = (
            f"torchrun is {found}: a resilient-run, but of another environment.",
            "other environment",
            Exit.BAD_NEWS,
        )
    else:
        said, state, code = f"torchrun is {found}: this resilient-run.", "ours", Exit.FINE
    if code is not Exit.FINE:
        said += ' To change that: eval "$(resilient shim)"'
    return Answer(f"{said}\n", {"schema": 1, "torchrun": found, "state": state}, code)


def _head(file: Path) -> str | None:
    try:
        with open(file, "rb") as stream:
            return os.fsdecode(stream.read(_HEAD_BYTES))
    except OSError:
        return None


def _sh(folder: str) -> str:
    place = shlex.quote(folder)
    # Evaluated twice it is still only once on PATH.
    # An empty PATH must not become "folder:", which means the working directory as well.
    joined = f'PATH={place}"${{PATH:+:$PATH}}"'
    return f'case "${{PATH-}}" in {place}:*) ;; *) {joined}; export PATH ;; esac\n'


def _fish(folder: str) -> str:
    place = "'" + re.sub(r"([\\'])", r"\\\1", folder) + "'"
    return f'if test "$PATH[1]" != {place}; set -gx PATH {place} $PATH; end\n'


def _csh(folder: str) -> str:
    if re.search(r"\s\s|[\n\t]", folder):
        raise Misuse(f"csh cannot be given the path {folder!r}. Set XDG_CACHE_HOME to another.")
    place = "'" + folder.replace("'", "'\\''").replace("!", "\\!") + "'"
    return f'setenv PATH {place}":$PATH";\n'


_DIALECTS: dict[str, Callable[[str], str]] = {"sh": _sh, "fish": _fish, "csh": _csh}
