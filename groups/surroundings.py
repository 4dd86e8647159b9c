"""What groups read from outside their partition: the metadata image and settings of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kwire.cluster.metadata.image import ClusterImage


@dataclass(frozen=True, slots=True)
class AssignedSettings:
    """The settings of a group, or the broker's settings that are their defaults.

    Each kind of groups has its own settings of these names.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    """Minimum time between two target assignments."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings(AssignedSettings):
    """The settings of a consumer group."""

    default_assignor: str = "uniform"
    """Used if no member asks for an assignor."""


@dataclass(frozen=True, slots=True)
class ShareSettings(AssignedSettings):
    """The settings of a share group."""


@dataclass(frozen=True, slots=True)
class StreamsSettings(AssignedSettings):
    """The settings of a streams group."""

    initial_rebalance_delay_ms: int = 3_000
    """How long the first assignment waits for more members to join."""
    num_standby_replicas: int = 0
    rack_aware_assignment_tags: tuple[str, ...] = ()
    """The client tags over whose values standbys are spread (KIP-1357)."""
    assignor_name: str = "sticky"
    task_offset_interval_ms: int = 60_000
    """How often members report the offsets of their tasks."""
    acceptable_recovery_lag: int = 10_000
    """By how many records a task may lag and count as caught up."""


class Surroundings(Protocol):
    """The current image and settings; two reads may return different images."""

    @property
    def image(self) -> ClusterImage: ...

    def settings(self, group_id: str) -> ConsumerSettings: ...

    def share_settings(self, group_id: str) -> ShareSettings: ...

    def streams_settings(self, group_id: str) -> StreamsSettings: ...


@dataclass(slots=True)
class FixedSurroundings:
    """Surroundings that change only if their attributes are set: for tests."""

    image: ClusterImage
    consumer_settings: ConsumerSettings = ConsumerSettings()
    share: ShareSettings = ShareSettings()
    streams: StreamsSettings = StreamsSettings()

    def settings(self, group_id: str) -> ConsumerSettings:
        return self.consumer_settings

    def share_settings(self, group_id: str) -> ShareSettings:
        return self.share

    def streams_settings(self, group_id: str) -> StreamsSettings:
        return self.streams


NOWHERE = FixedSurroundings(ClusterImage(cluster_id=""))
"""A cluster without topics: enough for classic groups."""
