"""Which replicas the two replication quotas throttle, and at which rates (KIP-73)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.quotas import ReplicationQuotas
from kwire.settings import ConfigResourceType
from kwire.storage.partitions.replication_quota import UNLIMITED

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
BOTH = {LEADERS: "0:1,3:1,0:2", FOLLOWERS: "4:1,5:2"}
DAY_MS = 86_400_000


class Stage:
    """The quotas of broker 1."""

    def __init__(self, image: ClusterImage) -> None:
        self.config = SimpleNamespace(
            dynamic={}, replication_quota_window_num=2, replication_quota_window_size_seconds=1
        )
        self.host = SimpleNamespace(node_id=1, image=image, config=self.config)
        self.quotas = ReplicationQuotas(cast(ReplicationContext, self.host))

    def throttled(self, topic: str) -> tuple[list[int], list[int]]:
        """The partitions of which this broker's replica is throttled, as leader and as follower."""
        quotas = self.quotas
        return (
            [index for index in range(7) if quotas.leader.is_throttled(topic, index)],
            [index for index in range(7) if quotas.follower.is_throttled(topic, index)],
        )


def with_configs(
    name: str, configs: dict[str, str], image: ClusterImage | None = None
) -> ClusterImage:
    return (image or ClusterImage("c")).with_configs(TOPIC, name, configs)


def test_configs_of_the_start_and_later_ones_say_which_replicas_are_throttled() -> None:
    stage = Stage(with_configs("t", BOTH))
    assert stage.throttled("t") == ([0, 3], [4])
    assert stage.throttled("u") == ([], [])
    stage.host.image = with_configs("u", {FOLLOWERS: "*"}, stage.host.image)
    assert stage.throttled("u") == ([], []), "not before the change is known here"
    stage.quotas.configs_changed([(TOPIC, "u")])
    assert stage.throttled("u") == ([], list(range(7)))
    stage.host.image = with_configs("t", {LEADERS: "6:1"}, stage.host.image)
    stage.quotas.configs_changed([(BROKER, "t")])
    assert stage.throttled("t") == ([0, 3], [4]), "that is a broker's config"
    stage.quotas.configs_changed([(TOPIC, "t")])
    assert stage.throttled("t") == ([6], [])


def test_deleted_topic_is_no_longer_throttled() -> None:
    """A new topic may get its name."""
    stage = Stage(with_configs("u", BOTH, with_configs("t", BOTH)))
    stage.quotas.topics_deleted(["t", "never throttled"])
    assert stage.throttled("t") == ([], [])
    assert stage.throttled("u") == ([0, 3], [4])


def test_rates_follow_the_dynamic_configs() -> None:
    stage = Stage(ClusterImage("c"))
    leader, follower = stage.quotas.leader, stage.quotas.follower
    assert (leader.bytes_per_s, follower.bytes_per_s) == (UNLIMITED, UNLIMITED)
    stage.config.dynamic = {
        "leader.replication.throttled.rate": "100",
        "follower.replication.throttled.rate": "200",
    }
    stage.quotas.configs_changed([])
    assert (leader.bytes_per_s, follower.bytes_per_s) == (100, 200)
    stage.config.dynamic = {"follower.replication.throttled.rate": "300"}
    stage.quotas.configs_changed([])
    assert (leader.bytes_per_s, follower.bytes_per_s) == (UNLIMITED, 300)


def test_each_quota_counts_its_own_bytes_in_windows_of_the_settings() -> None:
    """Two windows of a second: the rate is back at 0 two seconds later."""
    stage = Stage(ClusterImage("c"))
    stage.config.dynamic = dict.fromkeys(
        ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), "10"
    )
    stage.quotas.configs_changed([])
    leader, follower = stage.quotas.leader, stage.quotas.follower
    leader.record(1000, DAY_MS)
    assert leader.is_exceeded(DAY_MS)
    assert not follower.is_exceeded(DAY_MS)
    follower.record(1000, DAY_MS)
    assert follower.is_exceeded(DAY_MS + 999)
    assert not follower.is_exceeded(DAY_MS + 4000)
    assert not leader.is_exceeded(DAY_MS + 4000)
