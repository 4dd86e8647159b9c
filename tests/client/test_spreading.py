"""Plans of where replicas should be: valid, even, and with as few moves as that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.client.cluster import TopicPartition
from kwire.client.spreading import CannotSpread, ReplicaMove, planned, spread

Replicas = dict[TopicPartition, tuple[int, ...]]
NO_RACKS: dict[int, str | None] = dict.fromkeys(range(1, 7))


def topic(name: str, *replicas: Sequence[int]) -> Replicas:
    return {TopicPartition(name, index): tuple(each) for index, each in enumerate(replicas)}


def applied(current: Replicas, moves: Mapping[TopicPartition, ReplicaMove]) -> Replicas:
    assert all(current[place] == move.before for place, move in moves.items())
    return {**current, **{place: move.after for place, move in moves.items()}}


def copied(moves: Mapping[TopicPartition, ReplicaMove]) -> int:
    return sum(len(move.adding) for move in moves.values())


def unevenness(loads: Counter[int], brokers: Iterable[int]) -> int:
    of_each = [loads[each] for each in brokers]
    return max(of_each) - min(of_each)


def loads(replicas: Replicas, topic: str | None = None) -> Counter[int]:
    places = [place for place in replicas if topic in (None, place.topic)]
    return Counter(each for place in places for each in replicas[place])


def leaders(replicas: Replicas) -> Counter[int]:
    return Counter(each[0] for each in replicas.values())


@st.composite
def clusters(draw: st.DrawFn, brokers_max: int = 6) -> Replicas:
    """Topics of a few partitions, on brokers 1 to 6 in any order."""
    found: Replicas = {}
    for index in range(draw(st.integers(1, 3))):
        factor = draw(st.integers(1, 3))
        one = st.permutations(range(1, brokers_max + 1)).map(lambda ids: tuple(ids[:factor]))  # noqa: B023 - drawn at once
        found |= topic(f"t{index}", *draw(st.lists(one, min_size=1, max_size=9)))
    return found


TARGETS = st.sets(st.integers(1, 8), min_size=3)


@given(clusters(), TARGETS, st.booleans(), st.sampled_from([None, 1, 2, 3]))
def test_spread_uses_only_allowed_brokers(
    current: Replicas, brokers: set[int], balanced: bool, factor: int | None
) -> None:
    moves = spread(current, dict.fromkeys(brokers), balanced=balanced, replication_factor=factor)
    for place, replicas in applied(current, moves).items():
        assert len(replicas) == len(set(replicas)) == (factor or len(current[place]))
        assert set(replicas) <= brokers
    assert all(move.before != move.after for move in moves.values())


@given(clusters(), TARGETS, st.sampled_from([None, 1, 2, 3]))
def test_spread_without_balance_moves_only_what_it_must(
    current: Replicas, brokers: set[int], factor: int | None
) -> None:
    moves = spread(current, dict.fromkeys(brokers), replication_factor=factor)
    for place, replicas in applied(current, moves).items():
        kept = [each for each in current[place] if each in brokers]
        assert len(set(kept) & set(replicas)) == min(len(kept), len(replicas))
        if factor is None:  # whoever comes takes the place of who goes
            assert [
                b for a, b in zip(current[place], replicas, strict=True) if a in brokers
            ] == kept


@given(clusters(), TARGETS)
def test_balanced_spread_is_even_by_topic_and_in_total(
    current: Replicas, brokers: set[int]
) -> None:
    after = applied(current, spread(current, dict.fromkeys(brokers), balanced=True))
    for name in {place.topic for place in current}:
        assert unevenness(loads(after, name), brokers) <= 1
    assert unevenness(loads(after), brokers) <= 1
    assert not spread(after, dict.fromkeys(brokers), balanced=True)


@given(clusters(brokers_max=4), st.sampled_from([(1, 2, 3, 4), (1, 2, 3), (2, 3, 4, 5)]))
def test_balanced_spread_of_a_topic_copies_the_least(
    current: Replicas, brokers: tuple[int, ...]
) -> None:
    """The least of all even plans, which are enumerated for up to three partitions."""
    own = {place: each for place, each in current.items() if place.topic == "t0"}
    own = dict(list(own.items())[:3])
    moves = spread(own, dict.fromkeys(brokers), balanced=True)
    assert copied(moves) == fewest_copies(own, brokers)


def fewest_copies(current: Replicas, brokers: Sequence[int]) -> int:
    factor = len(next(iter(current.values())))
    choices = {frozenset(each) for each in permutations(brokers, factor)}
    found = []
    for chosen in product(choices, repeat=len(current)):
        load = Counter(each for replicas in chosen for each in replicas)
        if unevenness(load, brokers) <= 1:
            pairs = zip(chosen, current.values(), strict=True)
            found.append(sum(len(after - set(before)) for after, before in pairs))
    return min(found)


@given(clusters(), st.integers(1, 3))
def test_spread_puts_replicas_of_a_partition_into_different_racks(
    current: Replicas, factor: int
) -> None:
    """Three racks of two brokers."""
    racks = {broker: "abc"[broker % 3] for broker in range(1, 7)}
    after = applied(current, spread(current, racks, balanced=True, replication_factor=factor))
    for replicas in after.values():
        assert len({racks[each] for each in replicas}) == factor
    for name in {place.topic for place in current}:
        assert unevenness(loads(after, name), racks) <= 1
    assert unevenness(loads(after), racks) <= 1
    assert not spread(after, racks, balanced=True)


@given(clusters())
def test_spread_works_with_racks_of_unequal_size(current: Replicas) -> None:
    """A rack of one broker beside a rack of three: with two or more replicas per partition, the one
    broker has a replica of each."""
    racks = {1: "a", 2: "b", 3: "b", 4: "b"}
    after = applied(current, spread(current, racks, balanced=True))
    for replicas in after.values():
        assert len(replicas) == 1 or 1 in replicas


@given(clusters(), TARGETS)
def test_balanced_spread_has_even_leaders_where_possible(
    current: Replicas, brokers: set[int]
) -> None:
    """If each partition is on every broker, the numbers of leaders differ by at most one."""
    factor = len(brokers)
    after = applied(
        current,
        spread(current, dict.fromkeys(brokers), balanced=True, replication_factor=factor),
    )
    assert unevenness(leaders(after), brokers) <= 1
    for name in {place.topic for place in current}:
        own = {place: each for place, each in after.items() if place.topic == name}
        assert unevenness(leaders(own), brokers) <= 1


def test_new_broker_gets_an_even_share() -> None:
    current = topic("t", *[(1, 2), (2, 3), (3, 1)] * 4)
    moves = spread(current, dict.fromkeys([1, 2, 3, 4]), balanced=True)
    assert copied(moves) == 6
    assert {each for move in moves.values() for each in move.adding} == {4}
    after = applied(current, moves)
    assert loads(after) == Counter({1: 6, 2: 6, 3: 6, 4: 6})
    assert leaders(after) == Counter({1: 3, 2: 3, 3: 3, 4: 3})


def test_removed_broker_is_replaced_at_the_same_position() -> None:
    current = topic("t", (1, 2), (2, 3), (3, 1))
    moves = spread(current, dict.fromkeys([1, 2, 4]))
    assert moves == {
        TopicPartition("t", 1): ReplicaMove((2, 3), (2, 4)),
        TopicPartition("t", 2): ReplicaMove((3, 1), (4, 1)),
    }


def test_replacement_is_in_the_rack_of_the_removed_replica() -> None:
    racks = {1: "a", 2: "b", 4: "a", 5: "b", 6: "c"}
    current = topic("t", (1, 2, 3), (4, 5, 3))
    assert {move.adding for move in spread(current, racks).values()} == {(6,)}


def test_racks_are_ignored_unless_all_brokers_have_one() -> None:
    current = topic("t", (1, 3), (1, 3))
    moves = spread(current, {1: "a", 2: "a", 4: None})
    assert {move.after for move in moves.values()} == {(1, 2), (1, 4)}


def test_leader_stays_when_replicas_are_removed() -> None:
    current = topic("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    moves = spread(current, dict.fromkeys([1, 2, 3]), replication_factor=1)
    assert {move.after for move in moves.values()} == {(1,), (2,), (3,)}


def test_spread_refuses_more_replicas_than_brokers() -> None:
    with pytest.raises(CannotSpread, match="t-0 cannot have 3 replicas: there are 2 brokers"):
        spread(topic("t", (1, 2, 3)), dict.fromkeys([1, 2]))


def test_planned_returns_only_changed_partitions() -> None:
    current = topic("t", (1, 2), (2, 3))
    wanted = topic("t", (2, 1), (2, 3))
    assert planned(current, wanted) == {TopicPartition("t", 0): ReplicaMove((1, 2), (2, 1))}


def test_spread_of_a_large_cluster_to_a_new_broker_is_even() -> None:
    """30,000 replicas; each old broker gives an equal number of them."""
    current = topic("t", *[tuple((i + k) % 20 for k in range(3)) for i in range(5_000)])
    current |= {
        TopicPartition(f"s{i}", 0): ((i % 20), (i + 1) % 20, (i + 2) % 20) for i in range(5000)
    }
    moves = spread(current, dict.fromkeys(range(21)), balanced=True)
    after = applied(current, moves)
    assert unevenness(loads(after), range(21)) <= 1
    assert loads(after)[20] - 1 <= copied(moves) <= loads(after)[20]
