"""The exception that ended a worker, from its error file or from what it printed.

Both are written by a program that nobody vouches for: every function here is total, takes
time linear in its input and looks at a bounded part of it.
"""

import re
from collections.abc import Sequence

from resilient.diagnose.fingerprint import MESSAGE_LIMIT, fingerprint
from resilient.diagnose.traceback_blocks import blocks
from resilient.diagnose.traceback_parts import FOREIGN, PROGRESS, Block, Frame, Weight, plain
from resilient.model.evidence import ErrorText

USAGE = "UsageError"  # `type` of wrong arguments: they raise SystemExit, which prints no name
_LINES = 4000  # looked at, from the end
_RELATED = 8
_AFTER = 10  # unindented lines after an exception: with more, the program had gone on

_LIBRARY = re.compile(
    r"(?:.*/)?(?:site|dist)-packages/(?:torch|torchgen|functorch)/.*"  # torch
    r"|(?:.*/)?torch/(?:distributed|nn|utils|optim|autograd|_\w+)/.*"
    r"|.*/lib(?:64)?/python3\.\d+/(?!(?:site|dist)-packages/).*"  # the standard library
    r"|<(?!stdin>).*"
)
_USAGE_LINE = re.compile(r"\s*usage: ", re.IGNORECASE)
_USAGE_ERROR = re.compile(r"(?:\S{1,200}(?: \S{1,100}){0,3}: )?error: (?P<what>.+)", re.IGNORECASE)
_NO_SCRIPT = re.compile(r"\S*python\S*: can't (?:open|find) .+")
_NO_MODULE = re.compile(r"\S*python\S*: (?:No module named \S+|Error while finding module spec.+)")


def from_error_file(data: object) -> ErrorText | None:
    """`data`: the decoded JSON of a TORCHELASTIC_ERROR_FILE, of any shape at all."""
    message = data.get("message") if isinstance(data, dict) else None
    stack: object = None
    if isinstance(message, dict):
        extra = message.get("extraInfo")
        stack = extra.get("py_callstack") if isinstance(extra, dict) else None
        message = message.get("message")
    if isinstance(stack, str):
        found = _last(_clean(stack.splitlines()[-_LINES:]))
        if found is not None:
            return _error(*found, source="error_file")
    if not isinstance(message, str) or not message.strip() or message == "<NONE>":
        return None
    kind, colon, text = _printable(message[: 4 * MESSAGE_LIMIT]).strip().partition(":")
    named = bool(colon) and kind.replace(".", "_").isidentifier()
    block = Block(
        type=kind if named else "Error",
        message=text.strip() if named else message.strip(),
        words=(text if named else message).strip(),
    )
    return _error(block, (), source="error_file")


def from_output(lines: Sequence[str]) -> ErrorText | None:
    """The last exception that can have ended the process, or a usage error, in its output."""
    text = _clean(lines[-_LINES:])
    found = _last(text)
    if found is not None:
        return _error(*found, source="output")
    return _usage(text)


def _clean(lines: Sequence[str]) -> list[str]:
    return [_printable(plain(line)) for line in lines]


def _printable(text: str) -> str:
    """Without half surrogates, which cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _last(lines: Sequence[str]) -> tuple[Block, tuple[Block, ...]] | None:
    """The last block that counts most, and those that it was raised from, first one first."""
    found = blocks(lines)
    weight = max((block.weight for block in found), default=Weight.IGNORED)
    if weight is Weight.IGNORED:
        return None
    last = max(at for at, block in enumerate(found) if block.weight is weight)
    if sum(_goes_on(line) for line in lines[found[-1].end :]) > _AFTER:
        return None
    first = last
    while found[first].linked and first > 0:
        first -= 1
    return found[last], tuple(found[first:last])


def _goes_on(line: str) -> bool:
    """Whether a line after an exception says that the program lived."""
    if PROGRESS.match(line):
        return True
    return line[:1].strip() != "" and not FOREIGN.match(line)


def _error(block: Block, before: Sequence[Block], *, source: str) -> ErrorText:
    place = _place(block.frames)
    related = (*(_line(one) for one in before), *block.inner)
    return ErrorText(
        type=_printable(block.type[:200]),
        message=_printable(block.message[:MESSAGE_LIMIT]),
        source=source,
        fingerprint=fingerprint(block.type, _words(block), _where(block, place)),
        location=_printable(place),
        related=tuple(_printable(text[:300]) for text in related[:_RELATED]),
    )


def _words(block: Block) -> str:
    # "maximum recursion depth exceeded" goes on with what the interpreter just did.
    return "" if block.type == "RecursionError" else block.words


def _where(block: Block, place: str) -> str:
    """The place that goes into the fingerprint."""
    if block.type == "RecursionError":  # where in the circle it ended is chance
        return min((_of(frame) for frame in block.frames[-8:] if _own(frame)), default=place)
    return place or (_of(block.frames[-1]) if block.frames else "")


def _place(frames: Sequence[Frame]) -> str:
    return next((_of(frame) for frame in reversed(frames) if _own(frame)), "")


def _own(frame: Frame) -> bool:
    return _LIBRARY.match(frame.file) is None


def _of(frame: Frame) -> str:
    return f"{frame.file}:{frame.line}" + (f" in {frame.function}" if frame.function else "")


def _line(block: Block) -> str:
    first = block.message.partition("\n")[0]
    return f"{block.type}: {first}" if first else block.type


def _usage(lines: Sequence[str]) -> ErrorText | None:
    """argparse and click, and the interpreter's own words about a script that is not there."""
    shown = [line.strip() for line in lines if line.strip() and not FOREIGN.match(line)]
    if not shown:
        return None
    last = shown[-1]
    if _NO_MODULE.match(last):
        return _error(Block("ModuleNotFoundError", last, last), (), source="output")
    usage = any(_USAGE_LINE.match(line) for line in shown[-20:])
    if _NO_SCRIPT.match(last) or (usage and _USAGE_ERROR.match(last)):
        return _error(Block(USAGE, last, last), (), source="output")
    return None
