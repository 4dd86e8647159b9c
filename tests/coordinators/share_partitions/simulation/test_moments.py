"""Single schedules that the random ones have found."""

from __future__ import annotations

import random

import trio
from trio.testing import MockClock

from tests.coordinators.share_partitions.simulation.world import KEYS, World


def test_state_read_in_an_earlier_leadership_is_not_used() -> None:
    """Another leader may have written meanwhile; and nobody waits for what is refused."""
    clock = MockClock()
    trio.run(_read_between_two_leaderships, clock, clock=clock)


async def _read_between_two_leaderships(clock: MockClock) -> None:
    world = World(random.Random(1), clock)
    async with world.begun_group():
        for index in range(len(KEYS)):
            world.move_data(index, 1)
            world.move_state(index, 2)
        await _learn(world)
        while len(world.begun) < len(KEYS):
            world.begin_at_first()
            await world.calm_down()
            await world.pass_time(5_000)
        member = world.member("a", world.brokers[1])
        member.fetch(100, strict=False, max_wait_ms=20_000)
        await world.rest()
        assert len(world.network.movable) == 1, "it asks the share coordinator"
        for leader in (3, 1):
            for index in range(len(KEYS)):
                world.move_data(index, leader)
            await _learn(world)
        await world.calm_down()
        assert world.seen["read NONE"] == len(KEYS)
        assert world.seen["fetch NOT_LEADER_OR_FOLLOWER"] == len(KEYS)
        assert not world.brokers[1].shares._led
        assert not member.is_busy
        world.nursery.cancel_scope.cancel()


async def _learn(world: World) -> None:
    for broker in world.alive:
        broker.learn()
    await world.rest()
