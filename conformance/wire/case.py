"""A case: a named script of requests for one API key, and the versions it is about."""

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
    """`play` sends its requests through the stage at the stage's version, from `since` to `until`.

    At a version that has no form for one of its requests the case does not apply.
    """

    api_key: ApiKey
    name: str
    play: Play
    since: int = 0
    until: int = 32_767
    alone: bool = False
    """Whether it is played when nothing else is under way: where a broker does things together for
    several clients, one of them may be answered as another would be."""

    def applies_to(self, version: int) -> bool:
        return self.since <= version <= self.until


class Cases:
    """The cases of one API key, in the order they are written down; all may be played `alone`."""

    def __init__(self, api_key: ApiKey, *, alone: bool = False) -> None:
        self.api_key = api_key
        self._alone = alone
        self._cases: list[Case] = []

    def __iter__(self) -> Iterator[Case]:
        return iter(self._cases)

    def __call__(self, name: str, since: int = 0, until: int = 32_767) -> Callable[[Play], Play]:
        """Decorate the function that plays the case."""

        def add(play: Play) -> Play:
            self._add(name, play, since, until)
            return play

        return add

    def requests(
        self, table: Mapping[str, MakeRequest], since: int = 0, until: int = 32_767
    ) -> None:
        """Cases of one request each, by their names."""
        for name, make in table.items():
            self._add(name, _one(make), since, until)

    def include(self, others: Cases) -> None:
        """Take over cases that are written down in a module of their own."""
        for case in others:
            self._append(case)

    def _add(self, name: str, play: Play, since: int, until: int) -> None:
        self._append(Case(self.api_key, name, play, since, until, self._alone))

    def _append(self, new: Case) -> None:
        assert all(case.name != new.name for case in self._cases), f"two cases {new.name!r}"
        self._cases.append(new)


def _one(make: MakeRequest) -> Play:
    def play(stage: Stage) -> None:
        stage.send(make(stage))

    return play
