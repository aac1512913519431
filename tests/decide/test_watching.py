import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient.decide.watching import LISTENERS, PART, RARELY, RING, TOGETHER, operations, watch

sizes = st.integers(1, 300) | st.sampled_from([RING, RING + 1, 1250])


def names_of(size: int) -> tuple[str, ...]:
    return tuple(f"n{at}" for at in range(size))


@settings(deadline=None)
@given(sizes)
def test_everybody_has_two_quick_listeners(size: int) -> None:
    names = names_of(size)
    heard = dict.fromkeys(names, 0)
    for name in names:
        whom = watch(names, name)
        assert name not in whom.often + whom.rarely
        assert len(set(whom.often)) == len(whom.often) < 2 * PART
        for other in whom.often:
            heard[other] += 1
    assert all(
        count >= min(LISTENERS - (size > RING and size < 3 * PART), size - 1)
        for count in heard.values()
    )


@given(st.integers(2, 300), st.randoms())
def test_whoever_is_left_notices_any_loss(size: int, chance) -> None:  # type: ignore[no-untyped-def]
    names = names_of(size)
    left = set(chance.sample(names, chance.randint(1, size - 1)))
    seen = {name for one in left for name in (*watch(names, one).often, *watch(names, one).rarely)}
    assert seen - left


@settings(deadline=None)
@given(sizes)
def test_operations_are_those_of_all_nodes(size: int) -> None:
    names = names_of(size)
    total = 0.0
    for name in names:
        whom = watch(names, name)
        total += 1 + len(whom.rarely) / RARELY
        total += len(whom.often) if size <= RING else TOGETHER * bool(whom.often)
    assert total == pytest.approx(operations(size), rel=1e-6)


def test_the_first_nodes_of_a_part_listen_to_the_parts_before() -> None:
    names = names_of(4 * PART)
    assert watch(names, f"n{PART}").often == names[:PART]
    assert watch(names, f"n{2 * PART + 1}").often == names[:PART]
    assert watch(names, "n0").often == names[3 * PART :]
    assert watch(names, "n5") == ((), ("n4",))
