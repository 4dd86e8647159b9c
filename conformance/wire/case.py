"""A case: a named script of requests of one API key, with the versions that it covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.primitives import Message
from kwire.conformance.wire.stage import Stage

Play = Callable[[Stage], None]
MakeRequest = Callable[[Stage], Message]


@dataclass(frozen=True, slots=True)
class Case:
    """A case at the versions `since` to `until`; `play` sends its requests through a stage.

    The case does not apply to a version in which one of its requests cannot be encoded.
    """

    api_key: ApiKey
    name: str
    play: Play
    since: int = 0
    until: int = 32_767
    alone: bool = False
    """Whether the case runs while no other case runs.

    A broker may combine the work for several clients and then answer one of them as another.
    """

    def applies_to(self, version: int) -> bool:
        """Return whether the case is meant for this version of its API key."""
        return self.since <= version <= self.until


class Cases:
    """The cases of one API key in the order of their definition; `alone` applies to all of them."""

    def __init__(self, api_key: ApiKey, *, alone: bool = False) -> None:
        self.api_key = api_key
        self._alone = alone
        self._cases: list[Case] = []

    def __iter__(self) -> Iterator[Case]:
        return iter(self._cases)

    def __call__(self, name: str, since: int = 0, until: int = 32_767) -> Callable[[Play], Play]:
        """Return a decorator that adds the function as the `play` of a new case."""

        def add(play: Play) -> Play:
            self._add(name, play, since, until)
            return play

        return add

    def requests(
        self, table: Mapping[str, MakeRequest], since: int = 0, until: int = 32_767
    ) -> None:
        """Add cases of one request each, by name."""
        for name, make in table.items():
            self._add(name, _one(make), since, until)

    def include(self, others: Cases) -> None:
        """Add the cases of another module."""
        for case in others:
            self._append(case)

    def _add(self, name: str, play: Play, since: int, until: int) -> None:
        self._append(Case(self.api_key, name, play, since, until, self._alone))

    def _append(self, new: Case) -> None:
        assert all(case.name != new.name for case in self._cases), f"two cases {new.name!r}"
        self._cases.append(new)


def _one(make: MakeRequest) -> Play:
    """Return a script that sends the one request that `make` returns."""

    def play(stage: Stage) -> None:
        stage.send(make(stage))

    return play
