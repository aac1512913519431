"""Secrets out of argv, environment, URLs and text, before anything of them is written.

Two kinds of rules: by shape (what the token itself looks like) and by name (what follows a
name such as HF_TOKEN or --password). Names are judged in `secret_names`. Every function here
is total, takes time linear in its input, and changes nothing when it is applied again.
"""

import re
from collections.abc import Iterable, Mapping

from resilient.report.secret_names import is_secret, is_secret_in_text

MASK = "***"
_ROUNDS = 8  # one mask may bring the next secret into view; more than three were never seen

_START = r"(?<![\w-])"  # not within a longer word: it also keeps the search linear
_SHAPES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # A key of several lines; without its end (cut off) everything after the start is key.
        (
            r"(?s)(-----BEGIN [A-Z ]{0,40}PRIVATE KEY[A-Z ]*-----)(?:.*?(?=-----END )|.*)",
            rf"\1{MASK}",
        ),
        (r"(?<=://)[^\s/?#\"'<>]+@", f"{MASK}@"),  # user and password of a URL
        (r"(?i)\b(authorization|cookie)([\"']?[ \t]*:[ \t]*[\"']?)[^\n\"']+", rf"\1\2{MASK}"),
        (r"(?i)\b(bearer[ \t]+)[A-Za-z0-9._~+/=-]{8,}", rf"\1{MASK}"),
        (_START + r"eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)*", MASK),  # JSON web token
        (r"\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b", MASK),  # AWS
        (r"\bhf_[A-Za-z0-9]{16,}", MASK),  # Hugging Face
        (r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})", MASK),
        (_START + r"glpat-[\w-]{16,}", MASK),  # GitLab
        (_START + r"sk-(?=[A-Za-z_-]{0,64}\d)[\w-]{16,}", MASK),  # OpenAI…; not "sk-learn-…"
        (_START + r"xox[a-z]-[\w-]{10,}", MASK),  # Slack
        (_START + r"AIza[\w-]{30,}", MASK),  # Google
        (r"\bya29\.[\w-]{16,}", MASK),
    )
)
# A name, then what stands between it and its value. The value is matched where this ends.
_NAME = re.compile(
    r"(?<![\w.-])(?P<dashes>--?)?(?P<name>[A-Za-z_][\w.-]{0,127})"
    r"(?:(?P<mark>(?P<quote>[\"']?)[ \t]{0,4}(?P<sign>[:=])[ \t]{0,4})|(?P<space>[ \t]{1,4}))"
)
_VALUE = re.compile(
    r"(?P<open>[\"'])(?P<quoted>(?:\\.|(?!(?P=open))[^\\\n])*)(?:(?P=open)|\\?$)|[^\s,;&\"')\]}]+",
    re.MULTILINE,
)


def mask(text: str) -> str:
    """`text` with every value that looks like a secret replaced by three asterisks."""
    for _ in range(_ROUNDS):
        before = text
        for pattern, replacement in _SHAPES:
            text = pattern.sub(replacement, text)
        text = _mask_named(text)
        if text == before:
            break
    return text


def mask_argv(argv: Iterable[str]) -> tuple[str, ...]:
    """A command line; knows `--token X`, `--password=X` and `api_key=X`."""
    masked = []
    value_follows = False
    for word in argv:
        if value_follows and word and not word.startswith("--"):
            masked.append(MASK)
            value_follows = False
            continue
        name, equals, value = word.partition("=")
        if equals and value and is_secret(name.lstrip("-+")) and not re.search(r"\s", name):
            masked.append(f"{name}={MASK}")
        else:
            masked.append(mask(word))
        value_follows = word.startswith("-") and not equals and is_secret(word.lstrip("-"))
    return tuple(masked)


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """An environment: values with a secret's name become asterisks, the others are masked."""
    return {name: MASK if value and is_secret(name) else mask(value) for name, value in env.items()}


def _mask_named(text: str) -> str:
    """Replaces the value after each name that is a secret's."""
    parts = []
    done = 0
    start = 0
    while found := _NAME.search(text, start):
        start = max(found.end("name"), found.start() + 1)
        option = found["dashes"] is not None
        if found["space"] and not option:
            continue  # "token X" in prose is no assignment
        if not is_secret_in_text(found["name"], assigned=option or found["sign"] == "="):
            continue
        value = _VALUE.match(text, found.end())
        if value is None or (found["space"] and value[0].startswith("-")):
            continue
        where = value.span("quoted") if value["open"] else value.span()
        if where[0] == where[1]:
            continue
        parts += [text[done : where[0]], MASK]
        done = start = where[1]
    return "".join([*parts, text[done:]])
