"""ReplicationQuotas: bandwidth limits of replication (KIP-73), as a leader and as a follower.

    leader      while the throttled partitions together are sent above the rate, followers that are
                out of sync get no records of them; their Fetches wait as if there were no records
    follower    while the throttled partitions together are received above the rate, those that are
                behind are left out of the next Fetch

Traffic of in-sync replicas counts too, but is never held back.  The rates are dynamic settings of
one broker or of all brokers.  Topic configs name the throttled replicas of either side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kwire.cluster.metadata.image import TOPIC_RESOURCE
from kwire.storage.partitions.replication_quota import ReplicationQuota

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ResourceKey
    from kwire.cluster.replication.context import ReplicationContext

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"


class ReplicationQuotas:
    """The leader and the follower quota, kept in step with the configs."""

    __slots__ = ("_host", "follower", "leader")

    def __init__(self, host: ReplicationContext) -> None:
        """Makes both quotas with the limits in the present configs."""
        self._host = host
        windows = host.config.replication_quota_window_num
        window_s = host.config.replication_quota_window_size_seconds
        self.leader = ReplicationQuota(windows, window_s)
        self.follower = ReplicationQuota(windows, window_s)
        self.configs_changed(host.image.configs)

    def configs_changed(self, changed: Iterable[ResourceKey]) -> None:
        """Apply the configs of the topics in `changed`, and the broker's dynamic rates."""
        dynamic = self._host.config.dynamic
        self.leader.set_rate(LEADER_RATE, dynamic)
        self.follower.set_rate(FOLLOWER_RATE, dynamic)
        for kind, name in changed:
            if kind == TOPIC_RESOURCE:
                self._throttle(name)

    def _throttle(self, topic: str) -> None:
        """Sets which replicas of a topic are throttled, from the topic's configs."""
        configs = self._host.image.configs_of(TOPIC_RESOURCE, topic)
        leading = configs.get("leader.replication.throttled.replicas", "")
        following = configs.get("follower.replication.throttled.replicas", "")
        self.leader.set_replicas(topic, leading, self._host.node_id)
        self.follower.set_replicas(topic, following, self._host.node_id)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Forget the throttled replicas of deleted topics: a new topic may get the same name."""
        for name in names:
            self.leader.throttled.pop(name, None)
            self.follower.throttled.pop(name, None)
