"""One of two log directories fails, at kwire or Apache Kafka 3.9.2, with either as controller."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest

from kwire.client.topics import create_topic
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE, Mixed, mixed
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

OURS, THEIRS = 1, 2
BOTH = frozenset((OURS, THEIRS))
DISKS = ("a", "b")
NOTICED_SOON = {
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
PARTITIONS = 4


@pytest.mark.parametrize("controller", [OURS, THEIRS])
@pytest.mark.parametrize("victim", [OURS, THEIRS])
def test_failed_log_directory_leaves_partitions_of_the_other_directory_available(
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
    unique: str,
    victim: int,
    controller: int,
) -> None:
    """The other broker leads the failed partitions, and is their only in-sync replica."""
    chroot = f"/{unique}"
    with mixed(
        zookeeper, tmp_path, chroot, KWIRE, APACHE, settings=NOTICED_SOON, disks=DISKS
    ) as cluster:
        cluster.lead(controller)
        with cluster.client(OURS) as client:
            spread = [[OURS, THEIRS], [THEIRS, OURS]] * (PARTITIONS // 2)
            create_topic(client, "t", assignment=spread)
        until(lambda: in_sync(cluster) == {index: BOTH for index in range(PARTITIONS)}, "in sync")
        values = [str(number) for number in range(400)]
        cluster.produce("t", values[:200], PARTITIONS)
        lost = break_disk(tmp_path / str(victim) / "b")
        assert 0 < len(lost) < PARTITIONS
        other = frozenset(BOTH - {victim})
        expected = {index: other if index in lost else BOTH for index in range(PARTITIONS)}
        until(functools.partial(is_so, cluster, expected), f"in sync as {expected}")
        cluster.produce("t", values[200:], PARTITIONS)
        assert sorted(cluster.read("t", PARTITIONS, 400)) == sorted(values)
        assert in_sync(cluster) == expected


def break_disk(directory: Path) -> set[int]:
    """Replace the log directory by a file, as Apache Kafka's tests do; returns its old content."""
    lost = {int(each.name.rpartition("-")[2]) for each in directory.glob("t-*")}
    directory.rename(directory.with_suffix(".gone"))
    directory.write_text("no directory")
    return lost


def in_sync(cluster: Mixed) -> dict[int, frozenset[int]]:
    """The ISR of each partition with a leader; empty while brokers report different states."""
    partitions = [cluster.topic(number, "t") or [] for number in cluster.up]
    agreed = all(each == partitions[0] for each in partitions)
    ours = zip(itertools.count(), partitions[0], strict=False)
    return {index: isr for index, (leader, _, isr) in ours if agreed and leader in isr}


def is_so(cluster: Mixed, expected: dict[int, frozenset[int]]) -> bool:
    return in_sync(cluster) == expected
