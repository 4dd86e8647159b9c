"""The assignor `simple`: gives each partition to as many members as needed to employ all members.

With P partitions and M members, each partition gets ceil(M / P) members, and the partition counts
of members differ by at most one.  Members keep their partitions where that is possible.  If all
members subscribe to the same topics, all topics are assigned together, else topic by topic.

The result equals Apache Kafka's.  Therefore it follows the iteration order of Java's maps and sets,
which decides which member gets which partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from kwire.groups.assignment import Assignment, Draft, MemberSpec
from kwire.groups.java import LOAD, HashTable, integer_hash, table_size, uuid_hash

NAME = "simple"

Place = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class ShareSpec:
    """A share group; `partitions` has the readable partitions of each subscribed topic."""

    members: Sequence[MemberSpec]
    homogeneous: bool
    partitions: Mapping[bytes, Sequence[int]]


def assign(spec: ShareSpec) -> dict[str, Assignment]:
    """Member id -> assignment; empty if no member subscribes to a topic."""
    drafts = _Drafts(spec.members)
    everything = HashTable(uuid_hash, (t for member in spec.members for t in member.topic_ids))
    if not len(everything):
        return {}
    if spec.homogeneous:
        _share_all(spec, list(spec.members[0].topic_ids), drafts)
    else:
        for topic_id in everything:
            _share_topic(spec, topic_id, drafts)
    return drafts.done()


def _share_all(spec: ShareSpec, topic_ids: Sequence[bytes], drafts: _Drafts) -> None:
    """Assign all topics together: all members subscribe to the same ones."""
    places = [(topic_id, p) for topic_id in topic_ids for p in spec.partitions[topic_id]]
    sharing = _Sharing(range(len(spec.members)), places, _place_hash, drafts)
    for index, member in enumerate(spec.members):
        for topic_id, partitions in member.assignment.items():
            if topic_id in topic_ids:
                sharing.keep(index, ((topic_id, partition) for partition in partitions))
            else:
                drafts.of(index).remove_topic(topic_id)
    sharing.share(unfilled=[i for i in range(len(spec.members)) if sharing.wants_more(i)])


def _share_topic(spec: ShareSpec, topic_id: bytes, drafts: _Drafts) -> None:
    """Assign one topic.  A member that has unsubscribed from it loses its partitions."""
    subscribed = [i for i, member in enumerate(spec.members) if topic_id in member.topic_ids]
    places = [(topic_id, partition) for partition in spec.partitions[topic_id]]
    sharing = _Sharing(subscribed, places, lambda place: integer_hash(place[1]), drafts)
    for index, member in enumerate(spec.members):
        partitions = member.assignment.get(topic_id, ())
        sharing.keep(index, ((topic_id, partition) for partition in partitions))
    sharing.share()


def _place_hash(place: Place) -> int:
    """`hashCode` of the Java record of a topic's id and a partition."""
    return (uuid_hash(place[0]) * 31 + place[1]) & 0xFFFFFFFF


def _java_table(expected: int) -> int:
    # The capacity that Apache Kafka requests for a map of `expected` entries.
    return table_size(int((expected + 1) / LOAD + 1))


class _Draft(Draft):
    """A draft that keeps a topic whose last partition was removed."""

    def take(self, place: Place) -> bool:
        """Remove a partition.  Returns whether the member had it."""
        partitions = self._topics.get(place[0])
        if partitions is None or place[1] not in partitions:
            return False
        partitions.discard(place[1])
        return True


class _Drafts:
    """The changed assignments, by the member's index in the group."""

    def __init__(self, members: Sequence[MemberSpec]) -> None:
        self._members = members
        self._changed: dict[int, _Draft] = {}

    def of(self, index: int) -> _Draft:
        """Return the changeable assignment of a member; the first call copies the last one."""
        draft = self._changed.get(index)
        if draft is None:
            draft = self._changed[index] = _Draft(self._members[index].assignment)
        return draft

    def done(self) -> dict[str, Assignment]:
        """Return member id -> assignment; members that were not changed keep theirs as it was."""
        return {
            member.member_id: self._changed[index].done()
            if index in self._changed
            else member.assignment
            for index, member in enumerate(self._members)
        }


class _Sharing:
    """The distribution of `places` among members, which are identified by index in the group."""

    def __init__(
        self,
        members: Sequence[int],
        places: Sequence[Place],
        place_hash: Callable[[Place], int],
        drafts: _Drafts,
    ) -> None:
        """Compute how many members each partition gets, and how many partitions each member.

        Rounding the running totals up spreads the difference of one evenly over the members.
        """
        self._members = members
        self._places = places
        self._place_hash = place_hash
        self._drafts = drafts
        # Rounded up.
        self._sharers = -(-len(members) // len(places)) if places else 0
        """Number of members that each partition gets."""
        each = self._sharers * len(places) / len(members)
        self._wanted = {
            member: ceil(each * (position + 1)) - ceil(each * position)
            for position, member in enumerate(members)
        }
        self._known_places = HashTable(place_hash, size=_java_table(len(places)))
        self._by_place: dict[Place, HashTable[int]] = {}
        self._known_members = HashTable(integer_hash, size=_java_table(len(members)))
        self._by_member: dict[int, HashTable[Place]] = {}

    def wants_more(self, member: int) -> bool:
        return self._held(member) < self._wanted.get(member, 0)

    def _held(self, member: int) -> int:
        return len(self._by_member.get(member, ()))

    def keep(self, member: int, places: Iterable[Place]) -> None:
        """Note partitions that a member has from the last assignment."""
        for place in places:
            self._members_of(place).add(member)
            self._places_of(member).add(place)

    def _members_of(self, place: Place) -> HashTable[int]:
        """Return the members of a partition, in the order of Java's set."""
        members = self._by_place.get(place)
        if members is None:
            self._known_places.add(place, in_front=True)
            members = self._by_place[place] = HashTable(integer_hash)
        return members

    def _places_of(self, member: int) -> HashTable[Place]:
        """Return the partitions of a member, in the order of Java's set."""
        places = self._by_member.get(member)
        if places is None:
            self._known_members.add(member, in_front=True)
            places = self._by_member[member] = HashTable(self._place_hash)
        return places

    def share(self, unfilled: Sequence[int] | None = None) -> None:
        """Distribute the partitions: first take away the surplus, then fill what is missing.

        `unfilled` are the members that lack partitions.  With None, this finds them after the
        surplus has been taken away.
        """
        self._relieve_members()
        relieved = self._relieve_places()
        if unfilled is None:
            waiting = {member for member in self._members if self.wants_more(member)}
        else:
            waiting = {*unfilled, *relieved}
        for place in self._places:
            self._members_of(place)
        self._fill(sorted(waiting))

    def _relieve_members(self) -> None:
        """Take from each member the partitions that it has beyond its number."""
        for member in self._known_members:
            too_many = self._held(member) - self._wanted.get(member, 0)
            for place in list(self._by_member[member])[: max(too_many, 0)]:
                self._take(member, place)

    def _relieve_places(self) -> list[int]:
        """Take members from partitions that have too many.  Returns the members."""
        relieved = []
        for place in self._known_places:
            too_many = len(self._by_place[place]) - self._sharers
            for member in list(self._by_place[place])[: max(too_many, 0)]:
                self._take(member, place)
                relieved.append(member)
        return relieved

    def _take(self, member: int, place: Place) -> None:
        """Take a partition away from a member."""
        self._drafts.of(member).take(place)
        self._by_place[place].discard(member)
        self._by_member[member].discard(place)

    def _fill(self, unfilled: list[int]) -> None:
        """Give the missing members to partitions in turn, until all members are filled."""
        if not unfilled:
            return
        ahead, dealt = list(unfilled), False
        for place in self._known_places:
            sharers = self._by_place[place]
            missing = self._sharers - len(sharers)
            while missing > 0 and unfilled:
                if not ahead:
                    if not dealt:
                        break
                    ahead, dealt = list(unfilled), False
                member = ahead.pop(0)
                if member in sharers:
                    continue
                self._give(member, place)
                missing -= 1
                dealt = True
                if self._held(member) >= self._wanted[member]:
                    unfilled.remove(member)
            if not unfilled:
                break

    def _give(self, member: int, place: Place) -> None:
        self._drafts.of(member).add(*place)
        self._places_of(member).add(place)
