"""What may happen to the network and to time, whoever the controller is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from trio.testing import MockClock

from tests.cluster.replication.simulation.network import Network
from tests.cluster.replication.simulation.running import Step

Event = Callable[[int, int], Awaitable[None] | None]


class World(Protocol):
    """What these events need of a simulated cluster."""

    clock: MockClock
    network: Network
    seen: Counter[str]

    async def run(self, steps: list[tuple[str, Any, int, int]]) -> None: ...

    async def calm_down(self, rounds: int = 12) -> None: ...


class CommonEvents:
    """Maps three numbers to an event, so that hypothesis can draw, shrink and repeat a schedule.

    A subclass sets `_events`, which has an event as often as it shall be drawn.
    """

    def __init__(self, world: World) -> None:
        self._common = world
        self.network = world.network
        self.seen = world.seen
        self._events: list[Event] = []

    async def run(self, schedule: list[Step]) -> None:
        events = [self._events[kind % len(self._events)] for kind, _, _ in schedule]
        await self._common.run(
            [
                (event.__name__, _awaited(event), one, two)
                for event, (_, one, two) in zip(events, schedule, strict=True)
            ]
        )

    # -- the network

    def net(self, one: int, two: int) -> None:
        movable = self.network.movable
        if movable:
            self.network.arrive(movable[one % len(movable)])

    def calm(self, one: int, two: int) -> None:
        for each in self.network.movable:
            self.network.arrive(each)

    async def flow(self, one: int, two: int) -> None:
        """All goes well for a moment."""
        await self._common.calm_down(1 + one % 6)

    def lose(self, one: int, two: int) -> None:
        movable = self.network.movable
        if movable:
            self.network.lose(movable[one % len(movable)])

    def read_late(self, one: int, two: int) -> None:
        self.seen["read late"] += self.network.read_late(one)

    def cut(self, one: int, two: int) -> None:
        """One way of two brokers, or of one and the controllers."""
        source, target = one % 3 + 1, two % 4
        if source != target:
            self.network.cut.add((source, target))

    def mend(self, one: int, two: int) -> None:
        self.network.cut.clear()

    # -- time

    def tick(self, one: int, two: int) -> None:
        self._common.clock.jump(0.1 + one % 20 / 10)

    def long_tick(self, one: int, two: int) -> None:
        self._common.clock.jump(8.0)


def _awaited(event: Event) -> Callable[[int, int], Awaitable[None]]:
    async def happen(one: int, two: int) -> None:
        result = event(one, two)
        if result is not None:
            await result

    return happen
