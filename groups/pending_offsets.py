"""Offsets that were committed in transactions which are not ended yet (KIP-98, KIP-447).

They are invisible until their producer's marker is in the log: a commit makes them count, an abort
drops them.  Until then their partitions are unstable for who asks with `require_stable`.  What was
written later to the log wins: an offset that another commit has overtaken meanwhile does not count
when its transaction is committed, but keeps its partition unstable as long as that is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kwire.groups.offsets import CommittedOffset


class OffsetPlace(NamedTuple):
    """What an offset is committed for."""

    group_id: str
    topic: str
    partition: int


class PendingOffsets:
    """The offsets of open transactions in one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._of_group: dict[str, dict[OffsetPlace, dict[int, CommittedOffset | None]]] = {}
        """By producer id, in the order in which the log has them; None: overtaken."""
        self._of_producer: dict[int, set[OffsetPlace]] = {}

    # -- what is pending

    def __contains__(self, place: OffsetPlace) -> bool:
        return place in self._of_group.get(place.group_id, ())

    def of_group(self, group_id: str) -> Iterable[OffsetPlace]:
        return self._of_group.get(group_id, ())

    def of_topic(self, topic: str) -> Iterator[OffsetPlace]:
        for places in self._of_group.values():
            yield from (place for place in places if place.topic == topic)

    # -- what the log says

    def add(self, producer_id: int, place: OffsetPlace, committed: CommittedOffset) -> None:
        """The producer has committed an offset, perhaps not for the first time."""
        offers = self._of_group.setdefault(place.group_id, {}).setdefault(place, {})
        offers.pop(producer_id, None)
        offers[producer_id] = committed
        self._of_producer.setdefault(producer_id, set()).add(place)

    def overtake(self, place: OffsetPlace) -> None:
        """An offset was committed outside of transactions: those before it do not count."""
        offers = self._of_group.get(place.group_id, {}).get(place)
        if offers is not None:
            for producer_id in offers:
                offers[producer_id] = None

    def remove(self, place: OffsetPlace) -> None:
        """The offset is deleted, whoever has committed it."""
        for producer_id in self._of_group.get(place.group_id, {}).get(place, ()):
            places = self._of_producer[producer_id]
            places.discard(place)
            if not places:
                del self._of_producer[producer_id]
        self._forget(place)

    def end(self, producer_id: int, commit: bool) -> list[tuple[OffsetPlace, CommittedOffset]]:
        """A marker was written; gives the offsets that count from now on."""
        counting = []
        for place in self._of_producer.pop(producer_id, ()):
            offers = self._of_group[place.group_id][place]
            committed = offers[producer_id]
            if commit and committed is not None:
                counting.append((place, committed))
                _overtake_before(offers, producer_id)
            del offers[producer_id]
            if not offers:
                self._forget(place)
        return counting

    def _forget(self, place: OffsetPlace) -> None:
        places = self._of_group.get(place.group_id)
        if places is not None:
            places.pop(place, None)
            if not places:
                del self._of_group[place.group_id]


def _overtake_before(offers: dict[int, CommittedOffset | None], producer_id: int) -> None:
    for earlier in offers:
        if earlier == producer_id:
            return
        offers[earlier] = None
