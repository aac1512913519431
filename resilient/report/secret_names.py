"""Whether a variable, option or key is the name of a secret.

A name is split into words at anything but letters, and at capitals (authToken).
Strong words make a secret wherever they stand; weak ones (token, key) have other meanings in
machine learning (pad_token, key_dim, max_tokens), which are told apart by their neighbours.
"""

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]+")
_STRONG = re.compile(
    r"passw|pwd|passphrase|secret|credential|api_?-?key|access_?-?key|private_?-?key|auth_?-?token",
    re.IGNORECASE,
)
_WEAK = frozenset({"token", "key", "auth", "authorization", "pass", "cookie", "signature", "sig"})
_JOINED = re.compile(
    r".token$|(?:account|encryption|master|signing|ssh|storage)key$", re.IGNORECASE
)
_HARMLESS = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK"})
# Vocabulary and attention, not access: pad_token, mask_token_id, num_key_value_heads.
_BEFORE = re.compile(
    "pad|eos|bos|unk|sep|cls|mask|image|per|num|max|min|n|first|last|special|stop|primary|"
    "foreign|sort|query|missing|unexpected|next|sub|no|use"
)
_AFTER = re.compile(
    "ids?|dims?|size|len|length|count|num|index|idx|types?|values?|heads?|error|file|path|dir|"
    "padding|mask|embeddings?|proj|weight|bias|per|names?"
)


def is_secret(name: str) -> bool:
    """Whether the value of an environment variable or option of this name has to be hidden."""
    if name in _HARMLESS:
        return False
    if _STRONG.search(name):
        return True
    words = [word.lower() for word in _WORD.findall(name)]
    return any(_weak(words, index) for index in range(len(words)))


def is_secret_in_text(name: str, *, assigned: bool) -> bool:
    """The same for a name found in prose, where `KEY: …` and `token: …` are ordinary words.

    `assigned` says that the text is an assignment ("=", or an option) and not a colon's list.
    """
    words = _WORD.findall(name)
    if len(words) == 1 and not _STRONG.search(name) and not _JOINED.search(name):
        known = words[0].lower()
        return assigned and known in {"token", "auth", "sig", "signature"}
    return is_secret(name)


def _weak(words: list[str], index: int) -> bool:
    word = words[index]
    if word not in _WEAK:
        return bool(_JOINED.search(word))
    before = words[index - 1] if index else ""
    after = words[index + 1] if index + 1 < len(words) else ""
    return not _BEFORE.fullmatch(before) and not _AFTER.fullmatch(after)
