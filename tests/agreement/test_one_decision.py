"""Whatever the agents see, however slow they are, whoever dies: one decision."""

import random

import pytest

from agreement.simulation import LIMIT_S, Agent, World, as_lost, view_of
from resilient.agent.agreement import decision_key, report_key
from resilient.model.membership import LostNode

RUNS, TICKS = 1000, 20_000
PER_TEST = 50


def one_run(seed: int) -> None:
    chance = random.Random(seed)
    world, view = World(chance), view_of(chance.randint(2, 6))
    failed = chance.randrange(len(view.members))
    agents = [Agent(world, view, at, failed) for at in range(len(view.members))]
    for agent in chance.sample(agents, chance.randint(0, len(agents) - 1)):
        agent.turns_left = chance.randint(0, 40)  # also in the middle of its own proposal
    mistaken = chance.choice(view.names) if chance.random() < 0.3 else None
    for agent in agents:
        agent.lost = seen_by(agent, agents, chance, mistaken)
    for _ in range(TICKS):
        waiting = [agent for agent in agents if not agent.over]
        if not waiting:
            break
        disturb(world, chance, view.names)
        chance.choices(waiting, [agent.weight for agent in waiting])[0].advance()
        world.now += chance.choice([0.0, 0.001, 0.02, 0.05])
    alive = [agent for agent in agents if agent.killed_at is None]
    assert all(agent.found is not None for agent in alive), "some wait for ever"
    assert len(world.decisions) == (1 if alive else len(world.decisions))
    assert len(world.decisions) <= 1
    assert len({repr(agent.found) for agent in alive}) <= 1


def seen_by(agent: Agent, agents: list[Agent], chance: random.Random, mistaken: str | None):  # type: ignore[no-untyped-def]
    """Each agent hears of a death at its own time, and some take a living one for lost."""
    late_s = chance.uniform(0, 2.0)
    is_mistaken = chance.random() < 0.5

    def lost(now: float) -> dict[str, LostNode]:
        found = {}
        for other in agents:
            dead = other.killed_at is not None and now >= other.killed_at + LIMIT_S + late_s
            if dead or (is_mistaken and other.name == mistaken and other is not agent):
                found[other.name] = as_lost(agent.view, other.name, LIMIT_S)
        return found

    return lost


def disturb(world: World, chance: random.Random, names: tuple[str, ...]) -> None:
    """A stranger writes to the store, until there is a decision."""
    if world.decisions or chance.random() > 0.02:
        return
    name = chance.choice(names)
    rubbish = chance.choice([b"", b"{}", b"\xff" * 100, b"x" * (2 << 20), b"0" * 64 + b" {}"])
    replayed = world.data.get(report_key(0, chance.choice(names)), rubbish)
    key = chance.choice([decision_key(0), report_key(0, name)])
    if key not in world.data:
        world.put(key, chance.choice([rubbish, replayed]))


@pytest.mark.parametrize("first", range(0, RUNS, PER_TEST))
def test_one_decision(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        try:
            one_run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
