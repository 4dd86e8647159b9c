"""The leaders of partitions whose disk fails or works again."""

from __future__ import annotations

from kwire.cluster.metadata.changes import apply_all, decide_all
from kwire.cluster.metadata.election import offline_decisions
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage

LED = PartitionImage(1, 5, 9, (1,), (1,))
GONE = PartitionImage(NO_LEADER, 6, 10, (1,), (), (1,))
ELSEWHERE = PartitionImage(2, 5, 9, (2, 3), (2, 3))


def image(*partitions: PartitionImage) -> ClusterImage:
    return ClusterImage("c").with_topics([TopicImage("t", b"0123456789abcdef", partitions)])


def decided(before: ClusterImage, *offline: int) -> tuple[PartitionImage, ...]:
    decisions = offline_decisions(before, 1, {("t", index) for index in offline})
    changes, _ = decide_all(before, decisions)
    assert len(changes) == len(decisions)
    return apply_all(before, changes).topics["t"].partitions


def test_only_partitions_on_the_failed_disk_lose_their_leader() -> None:
    assert decided(image(LED, LED, ELSEWHERE), 1) == (LED, GONE, ELSEWHERE)


def test_partition_on_a_working_disk_is_led_again_in_a_new_epoch() -> None:
    back = PartitionImage(1, 7, 11, (1,), (1,))
    assert decided(image(GONE, LED)) == (back, LED)
    read_from_a_file = PartitionImage(NO_LEADER, 6, 10, (1,), ())  # format 1 had no offline ones
    assert decided(image(read_from_a_file)) == (back,)


def test_offline_partition_stays_offline_after_a_restart() -> None:
    read_from_a_file = PartitionImage(NO_LEADER, 6, 10, (1,), ())
    assert decided(image(read_from_a_file), 0) == (
        PartitionImage(NO_LEADER, 6, 11, (1,), (), (1,)),
    )
    assert decided(image(GONE), 0) == (GONE,)


def test_no_decision_is_made_if_the_image_is_right() -> None:
    for before, offline in ((image(LED, ELSEWHERE), set()), (image(GONE), {("t", 0)})):
        assert offline_decisions(before, 1, offline) == []


def test_partition_changed_since_the_decision_stays_as_it_is() -> None:
    before = image(LED, LED)
    decisions = offline_decisions(before, 1, {("t", 0), ("t", 1)})
    assert decide_all(before.without_topics(["t"]), decisions) == ([], [])
    assert decide_all(image(GONE, LED), decisions)[1] == [1]
