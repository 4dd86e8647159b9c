"""What this broker's replication may take of the network (KIP-73): as a leader, and as a follower.

    leader      a follower out of sync gets nothing of a throttled partition while what was sent of
                such partitions is above the rate; its Fetch waits as if there were nothing
    follower    a throttled partition that is behind is left out of the next Fetch while what came
                of such partitions is above the rate

What replicas in sync take counts as well, but they are never held back.  The rates are dynamic
settings of a broker, or of all; which replicas are throttled each topic says for either side.
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
    """Both quotas, as the configs have them."""

    __slots__ = ("_host", "follower", "leader")

    def __init__(self, host: ReplicationContext) -> None:
        self._host = host
        windows = host.config.replication_quota_window_num
        window_s = host.config.replication_quota_window_size_seconds
        self.leader = ReplicationQuota(windows, window_s)
        self.follower = ReplicationQuota(windows, window_s)
        self.configs_changed(host.image.configs)

    def configs_changed(self, changed: Iterable[ResourceKey]) -> None:
        """Live by what is set on `changed` from now on; the broker's settings are taken anew."""
        dynamic = self._host.config.dynamic
        self.leader.set_rate(LEADER_RATE, dynamic)
        self.follower.set_rate(FOLLOWER_RATE, dynamic)
        for kind, name in changed:
            if kind == TOPIC_RESOURCE:
                self._throttle(name)

    def _throttle(self, topic: str) -> None:
        configs = self._host.image.configs_of(TOPIC_RESOURCE, topic)
        leading = configs.get("leader.replication.throttled.replicas", "")
        following = configs.get("follower.replication.throttled.replicas", "")
        self.leader.set_replicas(topic, leading, self._host.node_id)
        self.follower.set_replicas(topic, following, self._host.node_id)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """A later topic of that name has configs of its own."""
        for name in names:
            self.leader.throttled.pop(name, None)
            self.follower.throttled.pop(name, None)
