"""Elections in a cluster, as Kafka's PartitionLeaderElectionAlgorithms has them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.metadata.election import (
    Online,
    elected_for_reassignment,
    elected_for_shutdown,
    elected_offline,
    elected_preferred,
    first_state,
    is_new,
    next_state,
    original_replicas,
    target_replicas,
    unassigned_partition,
    without_replica,
)
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage

LED_BY_1 = PartitionImage(1, 5, 9, (1, 2, 3), (3, 1, 2))


def among(*brokers: int) -> Online:
    return set(brokers).__contains__


def after(
    leader: int,
    isr: tuple[int, ...],
    before: PartitionImage = LED_BY_1,
    *,
    recovering: bool = False,
) -> PartitionImage:
    return replace(
        before, leader=leader, isr=isr, leader_epoch=6, partition_epoch=10, recovering=recovering
    )


def test_first_in_sync_replica_leads_after_the_leader_is_gone() -> None:
    assert elected_offline(LED_BY_1, among(2, 3), unclean=True) == after(2, (3, 2))
    lagging = replace(LED_BY_1, isr=(1, 3))
    assert elected_offline(lagging, among(2, 3), unclean=True) == after(3, (3,))


def test_out_of_sync_replica_leads_only_if_unclean_election_is_allowed() -> None:
    alone = replace(LED_BY_1, isr=(1,))
    assert elected_offline(alone, among(2, 3), unclean=False) is None
    assert elected_offline(alone, among(3), unclean=True) == after(3, (3,), recovering=True)
    assert elected_offline(alone, among(), unclean=True) is None


def test_recovering_partition_stays_recovering_under_the_next_leader() -> None:
    recovering = replace(LED_BY_1, recovering=True)
    assert elected_offline(recovering, among(2), unclean=False) == after(2, (2,), recovering=True)


def test_online_replicas_of_a_new_partition_are_in_sync() -> None:
    new = unassigned_partition((1, 2, 3))
    assert is_new(new)
    assert first_state(new, among(2, 3)) == PartitionImage(2, 0, 0, (1, 2, 3), (2, 3))
    assert first_state(new, among()) is None


def test_preferred_replica_leads_only_if_in_sync_and_online() -> None:
    led_by_2 = replace(LED_BY_1, leader=2)
    assert elected_preferred(led_by_2, among(1, 2)) == after(1, (3, 1, 2))
    assert elected_preferred(led_by_2, among(2, 3)) is None
    assert elected_preferred(replace(led_by_2, isr=(2, 3)), among(1, 2)) is None


def test_reassigned_partition_is_led_by_a_target_replica() -> None:
    moved = replace(LED_BY_1, replicas=(4, 2, 1, 3), adding=(4,), removing=(1, 3))
    assert target_replicas(moved) == (4, 2)
    assert original_replicas(moved) == (2, 1, 3)
    led = elected_for_reassignment(moved, (4, 2), among(2, 3, 4))
    assert led == after(2, (3, 1, 2), moved)
    assert elected_for_reassignment(moved, (4, 2), among(1, 3, 4)) is None


def test_brokers_that_shut_down_neither_lead_nor_stay_in_sync() -> None:
    assert elected_for_shutdown(LED_BY_1, among(1, 2, 3), {1, 2}) == after(3, (3,))
    assert elected_for_shutdown(LED_BY_1, among(1, 2, 3), {1, 2, 3}) is None
    assert elected_for_shutdown(replace(LED_BY_1, isr=(1,)), among(1, 2), {1}) is None


def test_last_in_sync_replica_stays_in_the_isr() -> None:
    assert without_replica(LED_BY_1, 2) == after(1, (3, 1))
    assert without_replica(LED_BY_1, 1) == after(NO_LEADER, (3, 2))
    alone = replace(LED_BY_1, isr=(1,))
    assert without_replica(alone, 1) == after(NO_LEADER, (1,))
    assert without_replica(alone, 2) is None
    assert without_replica(replace(alone, leader=NO_LEADER), 1) is None


@given(
    st.permutations((1, 2, 3, 4)),
    st.sets(st.sampled_from((1, 2, 3, 4)), min_size=1),
    st.sets(st.sampled_from((1, 2, 3, 4))),
    st.booleans(),
)
def test_out_of_sync_replica_never_leads_without_unclean_election(
    replicas: list[int], isr: Collection[int], live: Collection[int], unclean: bool
) -> None:
    before = PartitionImage(1, 5, 9, tuple(replicas), tuple(isr))
    elected = elected_offline(before, live.__contains__, unclean=unclean)
    assert (elected is None) == (not set(isr) & set(live) and not (unclean and live))
    if elected is not None:
        assert elected.leader in elected.isr
        assert elected.leader in live
        assert (elected.leader not in isr) == elected.recovering
        assert elected == next_state(
            before, elected.leader, elected.isr, recovering=elected.recovering
        )
