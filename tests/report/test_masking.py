"""Secrets go, everything else stays, and doing it twice changes nothing."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resilient.report.masking import MASK, mask, mask_argv, mask_env
from resilient.report.secret_names import is_secret

HF = "hf_" + "aB3dE6gH9jK2mN5pQ8" * 2
TEXTS = [  # text, the part that has to go
    ("clone https://user:hunter2@host/x.git", "hunter2"),
    ("clone https://0123456789abcdef@github.com/x", "0123456789abcdef"),
    ("postgresql://me:p@ss:word@db:5432/x", "p@ss:word"),
    ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
    ('{"Authorization": "Basic dXNlcjpwdw==", "x": 1}', "dXNlcjpwdw"),
    ("sent bearer 0123456789abcdef there", "0123456789abcdef"),
    ("Cookie: sid=abcdef; other=ghijkl", "ghijkl"),
    ("login failed: password=hunter2 for x", "hunter2"),
    ("password: hunter2", "hunter2"),
    ("{'HF_TOKEN': 'hunter2', 'lr': 0.1}", "hunter2"),
    ("api_key = 'two words'", "two words"),
    ('"secret": "a \\" b"', 'a \\" b'),
    ("password='never closed", "never closed"),
    ("GET https://s3/x?X-Amz-Signature=abcdef&y=1", "abcdef"),
    ("GET /x?access_token=hunter2&y=1", "hunter2"),
    ("foo=password=hunter2", "hunter2"),
    ("ran: train.py --wandb-token hunter2 --lr 1", "hunter2"),
    (f"token is {HF} today", HF),
    ("aws AKIAABCDEFGHIJKLMNOP there", "AKIAABCDEFGHIJKLMNOP"),
    ("ghp_" + "a1B2" * 9, "a1B2"),
    ("key sk-proj-abc123DEF456ghi789", "abc123"),
    ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.SflKxwRJSMeKKF2", "SflKx"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIabc\nxyz\n-----END RSA PRIVATE KEY-----", "MIIabc"),
    ("-----BEGIN PRIVATE KEY-----\nMIIabc, cut off", "MIIabc"),
]
HARMLESS = [
    "KeyError: 'foo'",
    'Unexpected key(s) in state_dict: "layer.0.weight"',
    "Unexpected key: layer.0.weight",
    "SyntaxError: unexpected token: }",
    "key=3 sort_key=4 pad_token_id=0 max_tokens=4096 num_key_value_heads=8",
    "--tokenizer gpt2 --eos-token </s> --num-tokens 100",
    "loss=2.31 lr=0.1 step: 120",
    "from sk-learn-like-things import hf_hub_download",
    "https://host:8080/path?step=3&x=1",
    'File "/home/me/train.py", line 3, in <module>',
    "Enter password:",
    "authentication failed for author: me",
]


@pytest.mark.parametrize(("text", "secret"), TEXTS)
def test_secrets_go(text: str, secret: str) -> None:
    masked = mask(text)
    assert secret not in masked
    assert MASK in masked
    assert mask(masked) == masked


@pytest.mark.parametrize("text", HARMLESS)
def test_the_rest_stays(text: str) -> None:
    assert mask(text) == text


def test_what_stands_around_a_secret_stays() -> None:
    assert mask("user=me password=x lr=0.1") == f"user=me password={MASK} lr=0.1"
    assert mask("https://u:p@host/x?a=1") == f"https://{MASK}@host/x?a=1"


def test_argv() -> None:
    argv = ["train.py", "--token", "x1", "--password=x2", "wandb.api_key=x3", "--lr", "0.1"]
    argv += ["--hub-token", "--resume", "-H", "Authorization: Bearer x4x4x4x4", "s3://k:x5@b"]
    assert mask_argv(argv) == (
        *("train.py", "--token", MASK, f"--password={MASK}", f"wandb.api_key={MASK}"),
        *("--lr", "0.1", "--hub-token", "--resume", "-H", f"Authorization: {MASK}"),
        f"s3://{MASK}@b",
    )


SECRET = """
    HF_TOKEN WANDB_API_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN PGPASSWORD
    GITHUB_TOKEN authToken APIKEY MYSQL_PWD KEY DB_PASS REDIS_AUTH SSH_PRIVATE_KEY GIT_PASSWD
    GOOGLE_APPLICATION_CREDENTIALS SECRET_KEY_BASE API_KEY_PROD TOKEN_2 storageKey
"""
OPEN = """
    PATH HOME PWD OLDPWD TOKENIZERS_PARALLELISM MAX_TOKENS KEYBOARD SSH_AUTH_SOCK RANK sort_key
    OMP_NUM_THREADS MASTER_ADDR pad_token key_dim RESILIENT_PASSTHROUGH AUTHOR COMPASS monkey
"""


def test_names() -> None:
    assert [name for name in SECRET.split() if not is_secret(name)] == []
    assert [name for name in OPEN.split() if is_secret(name)] == []


def test_environment() -> None:
    env = {"HF_TOKEN": "x", "EMPTY_TOKEN": "", "LR": "0.1", "PROXY": "http://me:pw@proxy:3128"}
    assert mask_env(env) == {
        "HF_TOKEN": MASK,
        "EMPTY_TOKEN": "",
        "LR": "0.1",
        "PROXY": f"http://{MASK}@proxy:3128",
    }


PIECES = st.one_of(
    st.text(max_size=12),
    st.sampled_from([text for text, _ in TEXTS] + HARMLESS),
    st.sampled_from([*"=:'\"\\&?,;@/ \n-", "password", "token", "://", "--", MASK, "\x00"]),
)


@given(st.lists(PIECES, max_size=12).map("".join))
@example("password='\\")
@example("x://a@password=b@")
def test_total_and_idempotent(text: str) -> None:
    once = mask(text)
    assert mask(once) == once


@given(st.lists(PIECES, max_size=6))
def test_argv_total_and_idempotent(argv: list[str]) -> None:
    once = mask_argv(argv)
    assert len(once) == len(argv)
    assert mask_argv(once) == once


@given(st.dictionaries(PIECES, PIECES, max_size=4))
def test_env_total_and_idempotent(env: dict[str, str]) -> None:
    once = mask_env(env)
    assert list(once) == list(env)
    assert mask_env(once) == once


@pytest.mark.parametrize(
    "unit",
    [
        "eyJ-",
        "a=",
        "://",
        "password=",
        'password="',
        "key ",
        "a",
        "--token ",
        "'",
        "sk-",
        "bearer ",
    ],
)
def test_time_is_linear_enough(unit: str) -> None:
    before = time.monotonic()
    mask(unit * (300_000 // len(unit)))
    assert time.monotonic() - before < 20  # a fraction of a second; quadratic would be hours
