"""A scenario: a named script of requests to one broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kwire.conformance.behaviour.stage import ScenarioStage

Play = Callable[[ScenarioStage], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario; `room` is the name of its module."""

    room: str
    play: Play
    brisk: bool = False
    """Whether both brokers must check retention every half second: see `BRISK`."""
    alone: bool = False
    """Whether it uses up something that others need; it then runs after all others."""
    excuse: str | None = None
    """Why two correct brokers may differ in this scenario, or None."""

    @property
    def name(self) -> str:
        return f"{self.room}.{self.play.__name__}"

    @property
    def about(self) -> str:
        """The first line of the scenario's docstring."""
        return (self.play.__doc__ or "").strip().partition("\n")[0]


BRISK = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
"""Broker settings with which retention takes effect while a scenario waits."""


class Scenarios:
    """The scenarios of one module, in the order of their definition."""

    def __init__(self, room: str) -> None:
        self.room = room
        self._all: list[Scenario] = []

    def __iter__(self) -> Iterator[Scenario]:
        return iter(self._all)

    def __call__(
        self,
        *,
        brisk: bool = False,
        alone: bool = False,
        excuse: str | None = None,
    ) -> Callable[[Play], Play]:
        """Return a decorator that adds the function as the `play` of a new scenario."""

        def add(play: Play) -> Play:
            self._all.append(Scenario(self.room, play, brisk, alone, excuse))
            return play

        return add
