"""Plans the placement of replicas on brokers with as few moves as possible, without I/O.

    required   moves replicas off brokers that must have none, and adds missing replicas
    balanced   also spreads the replicas of each topic evenly, and then those of all topics

A replica goes to the broker whose rack has the fewest replicas of the partition, then to the one
with the fewest of the topic, then to the one with the fewest at all.  Racks count only if each
broker has one.  If a single move is not possible, a shortest chain of moves leads from the broker
with too many replicas to the one with too few.  Leaders (the first replicas) are spread in the same
way, which changes only the order of replicas.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from kwire.client.cluster import TopicPartition

Assignment = Mapping[TopicPartition, Sequence[int]]
"""The replicas of partitions, the preferred leader first."""


class CannotSpread(ValueError):
    """A partition should have more replicas than there are brokers."""


class ReplicaMove(NamedTuple):
    """The replicas of one partition before and after a reassignment."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        """The brokers that get a replica."""
        return tuple(each for each in self.after if each not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """The brokers that lose their replica."""
        return tuple(each for each in self.before if each not in self.after)


def spread(
    current: Assignment,
    racks: Mapping[int, str | None],
    *,
    replication_factor: int | None = None,
    balanced: bool = False,
) -> dict[TopicPartition, ReplicaMove]:
    """The moves that put all replicas on the brokers of `racks`, which maps broker to rack.

    Without `replication_factor` each partition keeps its number of replicas.  With `balanced`, the
    replicas are also spread evenly.  Raises CannotSpread.
    """
    plan = _Plan(current, racks)
    for place in current:
        plan.repair(place, replication_factor or len(current[place]))
    if balanced:
        plan.balance_replicas()
        plan.balance_leaders(current)
    elif replication_factor is not None:
        plan.balance_leaders(plan.changed)
    return {place: plan.move(place) for place in plan.changed}


def planned(current: Assignment, wanted: Assignment) -> dict[TopicPartition, ReplicaMove]:
    """The moves that give partitions the wanted replicas."""
    moves = {
        place: ReplicaMove(tuple(current[place]), tuple(replicas))
        for place, replicas in wanted.items()
    }
    return {place: move for place, move in moves.items() if move.before != move.after}


class _Plan:
    """The replicas of all partitions while the plan is being made."""

    def __init__(self, current: Assignment, racks: Mapping[int, str | None]) -> None:
        """`current` is the present placement, and `racks` has the rack of each broker that may have
        replicas.  Racks are ignored unless every broker has one."""
        self._current = current
        self._brokers = sorted(racks)
        has_racks = all(rack is not None for rack in racks.values())
        self._rack = {each: rack or "" if has_racks else "" for each, rack in racks.items()}
        self._replicas = {place: list(replicas) for place, replicas in current.items()}
        self._held: dict[int, set[TopicPartition]] = {each: set() for each in self._brokers}
        self._of_topic: dict[str, Counter[int]] = defaultdict(Counter)
        for place, replicas in sorted(current.items()):
            for each in replicas:
                self._of_topic[place.topic][each] += 1
                if each in self._held:
                    self._held[each].add(place)

    @property
    def changed(self) -> list[TopicPartition]:
        return sorted(
            place for place, now in self._replicas.items() if now != list(self._current[place])
        )

    def move(self, place: TopicPartition) -> ReplicaMove:
        return ReplicaMove(tuple(self._current[place]), tuple(self._replicas[place]))

    # -- required moves

    def repair(self, place: TopicPartition, count: int) -> None:
        """Give a partition `count` replicas, only on the allowed brokers."""
        if count > len(self._brokers):
            raise CannotSpread(
                f"{place} cannot have {count} replicas: there are {len(self._brokers)} brokers to "
                "choose from"
            )
        now = self._replicas[place]
        gone = [each for each in now if each not in self._held]
        for each in gone:
            if len(now) > count:
                self._drop(place, each)
            else:
                self._replace(place, each, self._best_for(place))
        while len(now) > count:
            self._drop(place, self._least_needed(place))
        while len(now) < count:
            best = self._best_for(place)
            now.append(best)
            self._gain(place, best)

    def _best_for(self, place: TopicPartition) -> int:
        """Return the broker for one more replica of a partition: in a rack with the fewest of its
        replicas, then with the fewest replicas of its topic, then with the fewest replicas."""
        in_rack = self._in_racks(place)
        of_topic = self._of_topic[place.topic]
        free = [each for each in self._brokers if each not in self._replicas[place]]
        return min(
            free,
            key=lambda each: (in_rack[self._rack[each]], of_topic[each], len(self._held[each])),
        )

    def _least_needed(self, place: TopicPartition) -> int:
        """The replica to drop.  Never the first one, which is the preferred leader."""
        in_rack = self._in_racks(place)
        of_topic = self._of_topic[place.topic]
        return max(
            self._replicas[place][1:],
            key=lambda each: (in_rack[self._rack[each]], of_topic[each], len(self._held[each])),
        )

    def _in_racks(self, place: TopicPartition) -> Counter[str]:
        replicas = self._replicas[place]
        return Counter(self._rack[each] for each in replicas if each in self._rack)

    # -- single steps

    def _drop(self, place: TopicPartition, broker: int) -> None:
        self._replicas[place].remove(broker)
        self._lose(place, broker)

    def _replace(self, place: TopicPartition, source: int, target: int) -> None:
        """Moves a replica from the broker `source` to `target`, at the same position in the replica
        list."""
        now = self._replicas[place]
        now[now.index(source)] = target
        self._lose(place, source)
        self._gain(place, target)

    def _lose(self, place: TopicPartition, broker: int) -> None:
        self._of_topic[place.topic][broker] -= 1
        if broker in self._held:
            self._held[broker].discard(place)

    def _gain(self, place: TopicPartition, broker: int) -> None:
        self._of_topic[place.topic][broker] += 1
        self._held[broker].add(place)

    # -- balancing moves

    def balance_replicas(self) -> None:
        """Spread the replicas of each partition over racks, then those of each topic, then all."""
        for place in self._replicas:
            self._even_racks(place)
        for places in _by_topic(self._replicas).values():
            even_out(
                self._holdings(places),
                self._may_go,
                self._replace,
                lambda each: len(self._held[each]),
            )
        everything = self._holdings(sorted(self._replicas))
        even_out(everything, self._may_go_by_topic, self._replace, lambda each: each)

    def _holdings(self, places: Iterable[TopicPartition]) -> dict[int, Holding]:
        """The partitions of `places` that each broker has a replica of."""
        held = {each: Holding() for each in self._brokers}
        for place in places:
            for each in self._replicas[place]:
                held[each].add(place, is_new=each not in self._current[place])
        return held

    def _even_racks(self, place: TopicPartition) -> None:
        """Move replicas of a partition until no rack has two more than one with a free broker."""
        while (target := self._best_for_or_none(place)) is not None:
            in_rack = self._in_racks(place)
            fullest = max(self._replicas[place], key=lambda each: (in_rack[self._rack[each]], each))
            # A move between racks that differ by one would only exchange their roles.
            if in_rack[self._rack[fullest]] - in_rack[self._rack[target]] < 2:
                return
            self._replace(place, fullest, target)

    def _best_for_or_none(self, place: TopicPartition) -> int | None:
        has_all = len(self._replicas[place]) == len(self._brokers)
        return None if has_all else self._best_for(place)

    def _may_go(self, place: TopicPartition, source: int, target: int) -> bool:
        """Whether a replica may go to `target`: it has none, and its rack would not have more."""
        if target in self._replicas[place]:
            return False
        here, there = self._rack[source], self._rack[target]
        if here == there:
            return True
        in_rack = self._in_racks(place)
        return in_rack[there] < in_rack[here]

    def _may_go_by_topic(self, place: TopicPartition, source: int, target: int) -> bool:
        """Whether `_may_go` allows the move and the topic stays as evenly spread as before."""
        of_topic = self._of_topic[place.topic]
        return of_topic[target] < of_topic[source] and self._may_go(place, source, target)

    def balance_leaders(self, places: Collection[TopicPartition]) -> None:
        """Choose the first replicas of these partitions so that leaders are spread evenly."""
        led: dict[str, Counter[int]] = defaultdict(Counter)
        for place, replicas in self._replicas.items():
            led[place.topic][replicas[0]] += 1
        all_led: Counter[int] = Counter()
        for of_topic in led.values():
            all_led.update(of_topic)

        def lead(place: TopicPartition, source: int, target: int) -> None:
            """Makes `target` the preferred leader of a partition instead of `source`, and updates
            the counts."""
            now = self._replicas[place]
            now.remove(target)
            now.insert(0, target)
            for count in (led[place.topic], all_led):
                count[source] -= 1
                count[target] += 1

        def may_lead(place: TopicPartition, source: int, target: int) -> bool:
            return target in self._replicas[place]

        def may_lead_by_topic(place: TopicPartition, source: int, target: int) -> bool:
            of_topic = led[place.topic]
            return of_topic[target] < of_topic[source] and target in self._replicas[place]

        for own in _by_topic(places).values():
            even_out(self._leaders(own), may_lead, lead, lambda each: all_led[each])
        even_out(self._leaders(places), may_lead_by_topic, lead, lambda each: each)

    def _leaders(self, places: Iterable[TopicPartition]) -> dict[int, Holding]:
        """Return the partitions that each broker leads as the preferred leader."""
        held = {each: Holding() for each in self._brokers}
        for place in places:
            first = self._replicas[place][0]
            held[first].add(place, is_new=first != self._current[place][0])
        return held


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Return the partitions by topic, sorted."""
    found: dict[str, list[TopicPartition]] = defaultdict(list)
    for place in sorted(places):
        found[place.topic].append(place)
    return found


# -- evening out

MayGo = Callable[[TopicPartition, int, int], bool]
"""Whether a partition may go from one broker to another."""


class Holding:
    """The partitions of a broker, those it gets by the plan first: moving these costs nothing."""

    def __init__(self) -> None:
        self._new: dict[TopicPartition, None] = {}
        self._old: dict[TopicPartition, None] = {}

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def __iter__(self) -> Iterator[TopicPartition]:
        return chain(self._new, self._old)

    def add(self, place: TopicPartition, *, is_new: bool = True) -> None:
        (self._new if is_new else self._old)[place] = None

    def remove(self, place: TopicPartition) -> None:
        of = self._new if place in self._new else self._old
        del of[place]


def even_out(
    held: Mapping[int, Holding],
    may_go: MayGo,
    move: Callable[[TopicPartition, int, int], None],
    rank: Callable[[int], int],
) -> None:
    """Move partitions until no chain leads to a broker with at least two fewer than its start.

    `rank` orders brokers with equally many; the smaller rank comes first.  Each chain makes the sum
    of the squares smaller, so this ends.
    """
    while steps := _steps_to_take(held, may_go, rank):
        for place, source, target in steps:
            held[source].remove(place)
            held[target].add(place)
            move(place, source, target)


Step = tuple[TopicPartition, int, int]
"""A partition that goes from one broker to another."""


def _steps_to_take(
    held: Mapping[int, Holding], may_go: MayGo, rank: Callable[[int], int]
) -> list[Step]:
    """The shortest chain of moves from the fullest broker, or from the next one if it has none."""
    by_load = sorted(held, key=lambda each: (len(held[each]), rank(each), each))
    fewest = len(held[by_load[0]]) if by_load else 0
    for source in reversed(by_load):
        # A move between brokers that differ by one would only exchange their roles.
        if len(held[source]) - fewest < 2:
            break
        if steps := _steps_from(source, by_load, held, may_go):
            return steps
    return []


def _steps_from(
    source: int, by_load: Sequence[int], held: Mapping[int, Holding], may_go: MayGo
) -> list[Step]:
    """A shortest chain from `source`, found breadth first, each broker once.

    The last step comes first, so that each step finds the state that the search assumed.  No
    partition moves twice in a chain.
    """
    came_by: dict[int, Step] = {}
    waiting = deque([source])
    while waiting:
        here = waiting.popleft()
        used = {step[0] for step in _steps_back(here, came_by)}
        for there in by_load:
            if there == source or there in came_by:
                continue
            found = (p for p in held[here] if p not in used and may_go(p, here, there))
            place = next(found, None)
            if place is None:
                continue
            came_by[there] = (place, here, there)
            if len(held[source]) - len(held[there]) >= 2:
                return _steps_back(there, came_by)
            waiting.append(there)
    return []


def _steps_back(broker: int, came_by: Mapping[int, Step]) -> list[Step]:
    """Return the steps of the chain that leads to `broker`, the last step first."""
    steps = []
    while broker in came_by:
        steps.append(came_by[broker])
        broker = came_by[broker][1]
    return steps
