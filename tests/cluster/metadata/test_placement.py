"""Replicas are spread over brokers and racks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cluster.metadata.image import BrokerImage
from kwire.cluster.metadata.placement import check_manual_assignment, place_partitions
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode


def cluster(racks: list[str | None]) -> dict[int, BrokerImage]:
    return {number: BrokerImage(number, (), rack) for number, rack in enumerate(racks, 1)}


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(0, 20),
    st.data(),
)
def test_every_partition_has_as_many_replicas_as_requested(
    racks: list[str | None], count: int, first: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    partitions = place_partitions(
        cluster(racks), count, factor, start=first % 3, shift=first, first=first
    )
    assert len(partitions) == count
    for partition in partitions:
        assert len(set(partition.replicas)) == len(partition.replicas) == factor
        assert partition.leader == partition.replicas[0]
        assert partition.isr == partition.replicas
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    leaders = Counter(partition.leader for partition in partitions)
    assert max(leaders.values()) - min(leaders.get(each, 0) for each in cluster(racks)) <= 1


def test_replicas_are_in_different_racks_if_possible() -> None:
    brokers = cluster(["a", "a", "b", "b", "c", "c"])
    for partition in place_partitions(brokers, 6, 3, start=0, shift=0):
        leader_rack = brokers[partition.replicas[0]].rack
        assert brokers[partition.replicas[1]].rack != leader_rack


def test_partitions_of_one_leader_have_different_followers() -> None:
    partitions = place_partitions(cluster([None] * 4), 12, 2, start=0, shift=0)
    followers = {p.replicas[1] for p in partitions if p.leader == 1}
    assert followers == {2, 3, 4}


def test_placement_on_too_few_brokers_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        place_partitions(cluster([None]), 1, 3, start=0, shift=0)
    assert refused.value.error == ErrorCode.INVALID_REPLICATION_FACTOR


def test_manual_assignment_with_another_number_of_replicas_is_refused() -> None:
    brokers = cluster([None] * 3)
    check_manual_assignment([1, 2], brokers, (), 2)
    with pytest.raises(Refusal, match="not consistent with previous partitions"):
        check_manual_assignment([1], brokers, (), 2)
