"""The assignor `uniform` for groups whose members subscribe to different topics.

1. Members keep their partitions of topics that they still subscribe to.
2. Topic by topic, free partitions go to the subscribers with the fewest partitions.
3. Topic by topic, partitions move from the subscribers with the most to those with the fewest,
   until there is no improvement, at most ROUNDS_MAX times.

Topics with the most partitions per subscriber come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kwire.groups.assignment import Assignment, Draft
from kwire.groups.consumer.assignors.spec import ConsumerGroupSpec

ROUNDS_MAX = 16
"""As in Apache Kafka: with overlapping subscriptions, each round halves the imbalance."""

_NOBODY = -1


def assign(spec: ConsumerGroupSpec) -> dict[str, Assignment]:
    """Member id -> assignment; empty if no member subscribes to a topic."""
    balance = _Balance(spec)
    if not balance.subscribers:
        return {}
    balance.assign_what_is_free()
    balance.move()
    return balance.done()


class _Balance:
    """The assignment while it is computed.  A member is identified by its index (`place`)."""

    def __init__(self, spec: ConsumerGroupSpec) -> None:
        """Begin with the partitions that the members keep of their last assignment."""
        self._members = spec.members
        self._counts = spec.partition_counts
        self.subscribers: dict[bytes, list[int]] = {}
        self._drafts: dict[int, Draft] = {}
        for place, member in enumerate(self._members):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(place)
        self.sizes = [0] * len(self._members)
        """Number of partitions of each member."""
        self._owners = {
            topic_id: [_NOBODY] * self._counts[topic_id] for topic_id in self.subscribers
        }
        self._keep()

    def _keep(self) -> None:
        """Note who keeps which partitions; members lose topics that they no longer subscribe to."""
        for place, member in enumerate(self._members):
            for topic_id, partitions in member.assignment.items():
                if topic_id not in member.topic_ids:
                    self._draft(place).remove_topic(topic_id)
                    continue
                self.sizes[place] += len(partitions)
                for partition in partitions:
                    self._owners[topic_id][partition] = place

    def _draft(self, place: int) -> Draft:
        """Return the changeable assignment of a member; the first call copies the last one."""
        draft = self._drafts.get(place)
        if draft is None:
            draft = self._drafts[place] = Draft(self._members[place].assignment)
        return draft

    def done(self) -> dict[str, Assignment]:
        """Return member id -> assignment; members that were not changed keep theirs as it was."""
        return {
            member.member_id: self._drafts[place].done()
            if place in self._drafts
            else member.assignment
            for place, member in enumerate(self._members)
        }

    def _sorted(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Return the topics in the order in which the assignor handles them.

        Those with the most partitions per subscriber come first.
        """

        def place(topic_id: bytes) -> tuple[float, int, int, int]:
            """Return the sort key of a topic; ids compare as two signed longs, as in Java."""
            subscribers = len(self.subscribers[topic_id])
            return (
                -self._counts[topic_id] / subscribers,
                subscribers,
                int.from_bytes(topic_id[:8], signed=True),
                int.from_bytes(topic_id[8:], signed=True),
            )

        return sorted(topic_ids, key=place)

    def _give(self, topic_id: bytes, partition: int, place: int) -> None:
        """Move a partition to the member at index `place`, from its owner if it has one.

        `expected`, the number of partitions per subscriber, is rounded up: Java sizes a set by it.
        """
        owner = self._owners[topic_id][partition]
        if owner != _NOBODY:
            self._draft(owner).remove(topic_id, partition)
            self.sizes[owner] -= 1
        # Rounded up.
        expected = -(-self._counts[topic_id] // len(self.subscribers[topic_id]))
        self._draft(place).add(topic_id, partition, expected)
        self._owners[topic_id][partition] = place
        self.sizes[place] += 1

    def assign_what_is_free(self) -> None:
        """Give each partition without an owner to the subscriber that has the fewest partitions."""
        for topic_id in self._sorted(t for t, owners in self._owners.items() if _NOBODY in owners):
            loads = _Loads(self.sizes, self.subscribers[topic_id])
            owners = self._owners[topic_id]
            free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
            for partition in free:
                self._give(topic_id, partition, loads.next_least())

    def move(self) -> None:
        """Move partitions topic by topic, until a whole round moves none.

        It ends after ROUNDS_MAX rounds.  Topics with a single subscriber have nothing to move.
        """
        shared = [topic_id for topic_id, places in self.subscribers.items() if len(places) > 1]
        topic_ids = self._sorted(shared)
        last_moved = -1
        for _ in range(ROUNDS_MAX):
            for position, topic_id in enumerate(topic_ids):
                if position == last_moved:
                    return  # a whole round without a move
                if self._move_within(topic_id) or last_moved == -1:
                    last_moved = position

    def _move_within(self, topic_id: bytes) -> bool:
        """Move partitions of one topic.  Returns whether any was moved."""
        loads = _Loads(self.sizes, self.subscribers[topic_id])
        if loads.difference <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        moved = False
        while not loads.balanced():
            giver = loads.next_most()
            while giver is not None and not owned.get(giver):
                loads.exclude()
                giver = loads.next_most()
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = loads.next_least()
            if loads.balanced():
                break
            self._give(topic_id, partition, taker)
            moved = True
        return moved


class _Loads:
    """The subscribers of one topic, ordered by number of partitions: who gives and who takes next.

    The subscribers with the fewest partitions form a range at the front.  Each gets one partition;
    then the range's size is one higher, and it extends over the subscribers of that size.  The
    subscribers with the most partitions form a range at the back in the same way; one that has
    nothing to give moves behind it.
    """

    def __init__(self, sizes: Sequence[int], places: Sequence[int]) -> None:
        """Order the subscribers `places` by their numbers of partitions, `sizes`."""
        self._sizes = sizes
        order = self._order = sorted(places, key=lambda place: (sizes[place], place))
        least, most = sizes[order[0]], sizes[order[-1]]
        self.difference = most - least
        self._least_end = 0
        self._least_size = least - 1
        self._next_least = 0
        self._most_start = self._most_end = len(order)
        self._most_size = most + 1
        self._next_most = len(order) - 1

    def balanced(self) -> bool:
        return self._most_size - self._least_size <= 1

    def next_least(self) -> int:
        """Return the next subscriber that gets a partition: one of those with the fewest."""
        if self._next_least >= self._least_end:
            self._least_size += 1
            while self._least_end < len(self._order) and self._has(
                self._least_end, self._least_size
            ):
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._order[self._next_least - 1]

    def next_most(self) -> int | None:
        """The next subscriber that gives a partition, or None if there is none left."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start > 0:
                self._most_size = self._sizes[self._order[self._most_start - 1]]
            else:
                self._most_size -= 1
            while self._most_start > 0 and self._has(self._most_start - 1, self._most_size):
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._order[self._next_most + 1]

    def exclude(self) -> None:
        """Exclude the last result of `next_most`: it has nothing to give."""
        given, last = self._next_most + 1, self._most_end - 1
        order = self._order
        order[given], order[last] = order[last], order[given]
        self._most_end -= 1

    def _has(self, position: int, size: int) -> bool:
        return self._sizes[self._order[position]] == size
