import pytest

from diagnose.samples import end, evidence
from resilient.diagnose.process_evidence import diagnose
from resilient.diagnose.wording import quote, ranks


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], "no rank"),
        ([3], "rank 3"),
        ([1, 0], "ranks 0 and 1"),
        ([5, 0, 2], "ranks 0, 2 and 5"),
        ([1, 2, 3, 4, 7], "ranks 1-4 and 7"),
        (range(1000), "ranks 0-999"),
    ],
)
def test_ranks(numbers: list[int], text: str) -> None:
    assert ranks(numbers) == text


def test_quote() -> None:
    assert quote("\n  one. \ntwo") == "one"
    assert quote("x" * 500) == "x" * 160 + "…"
    assert quote("") == ""


def test_a_thousand_ranks_make_a_short_sentence() -> None:
    found = diagnose(evidence(*[end(n, 1, output="module_missing") for n in range(1000)]))
    assert len(found.sentence) < 300
    assert len(found.evidence) < 10
    found = diagnose(evidence(*[end(n, 1, output="gloo_closed_by_peer") for n in range(1000)]))
    assert len(found.sentence) < 900
    assert len(found.evidence) < 10
