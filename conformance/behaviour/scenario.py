"""A scenario: a named script over one broker, and the traps it looks into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kwire.conformance.behaviour.stage import ScenarioStage

Play = Callable[[ScenarioStage], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`room` is the module it is written in."""

    room: str
    play: Play
    traps: tuple[int, ...] = ()
    brisk: bool = False
    """Whether both brokers must look after their logs every second or so: see `BRISK`."""
    alone: bool = False
    """Whether it uses up what others need: it is played when they are done."""
    excuse: str | None = None
    """Why brokers that both do right may differ here."""

    @property
    def name(self) -> str:
        return f"{self.room}.{self.play.__name__}"

    @property
    def about(self) -> str:
        """The first line of its docstring."""
        return (self.play.__doc__ or "").strip().partition("\n")[0]


BRISK = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
"""Broker settings under which retention is seen while one waits."""


class Scenarios:
    """The scenarios of one room, in the order they are written down."""

    def __init__(self, room: str) -> None:
        self.room = room
        self._all: list[Scenario] = []

    def __iter__(self) -> Iterator[Scenario]:
        return iter(self._all)

    def __call__(
        self,
        *traps: int,
        brisk: bool = False,
        alone: bool = False,
        excuse: str | None = None,
    ) -> Callable[[Play], Play]:
        """Decorate the function that plays it."""

        def add(play: Play) -> Play:
            self._all.append(Scenario(self.room, play, traps, brisk, alone, excuse))
            return play

        return add
