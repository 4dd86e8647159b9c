"""MetadataStore and ClusterStore: the interfaces of the stores of the cluster's metadata.

A single node keeps its metadata in a file (`kwire.cluster.stores.local`).  Brokers of one machine
may share a process (`kwire.cluster.stores.shared`), a cluster uses ZooKeeper
(`kwire.cluster.stores.zookeeper`) or KRaft controllers (`kwire.cluster.stores.kraft`).  Code
outside `kwire.cluster` must not depend on the kind.  tests/cluster/test_store_contract.py and
test_cluster_store_contract.py check what all stores do that brokers write,
tests/cluster/stores/kraft/test_store.py what the one does that only controllers write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kwire.cluster.metadata.changes import Change
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, ResourceKey
from kwire.cluster.metadata.quorum import MetadataQuorum

Watcher = Callable[[ClusterImage, ClusterDelta], None]
"""Called on the trio loop with each new image and its delta, in the order of versions."""

Preparation = Callable[[ClusterImage, ClusterDelta], Iterator[Callable[[], None] | None]]
"""Does what an image needs before its watchers are called, in steps of some milliseconds.

A function that it yields may block: a thread runs it before the next step."""


class StoreError(Exception):
    """The store cannot be read or written; the message says which store and why."""


class Fenced(StoreError):
    """This broker is no longer the controller: the store refused a change that it decided."""


class NotController(StoreError):
    """Only the controller may do this, and this broker is not the controller."""


class MetadataStore(Protocol):
    """Keeps the cluster's metadata and publishes its changes to all watchers in the same order.

    Each change is made whole or not at all, and only if its precondition holds.  There is no
    compare-and-set of the whole image: ZooKeeper has a version for each znode, a KRaft quorum a log
    of records.  Methods that may wait for a disk or a server are async.  An image that `commit`
    returned, or that a watcher got, is durable.
    """

    async def load(self) -> ClusterImage:
        """Return the latest committed image."""

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        """Make `changes` in their order; returns an image with them, after all watchers got it.

        Raises Conflict at the first change whose precondition does not hold; `Conflict.made` says
        how many changes before it were made.  By then watchers have got the image that the change
        conflicts with.  Raises StoreError; if the store is on another machine, the changes may
        have been made then.  Raises NotController if only KRaft controllers change the metadata.
        """

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` with every image committed from now on, by any broker."""

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """Register a live broker; it stays in the image as long as this store is open."""

    async def allocate_producer_ids(self, count: int) -> range:
        """Reserve producer ids that no other call returns, now or later.

        They are `count`, or as many as KRaft controllers give at a time.  Raises StoreError.
        """

    async def quorum(self, asked_ms: int) -> MetadataQuorum:
        """Return the leader of the metadata and how far the brokers have followed it.

        `asked_ms` is the present time, in ms since the epoch.  Raises StoreError; on ZooKeeper
        always, because it has no quorum of controllers.
        """

    def close(self) -> None:
        """Release files and connections; registrations of this process end."""


# -- a store that several brokers share

Place = tuple[str, int]
"""A partition: topic name and partition index."""


@dataclass(frozen=True, slots=True)
class ControllerGone:
    """The cluster has no controller: any broker may campaign."""


@dataclass(frozen=True, slots=True)
class BrokerEnded:
    """The process of this broker has ended; the image without the broker follows."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class SessionSuspended:
    """The store cannot be reached: this broker does not know if it is still a member."""


@dataclass(frozen=True, slots=True)
class SessionResumed:
    """The store can be reached again, and the session has continued."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The registration of this broker is gone; it leads nothing until it registers again.

    Sent when the store says so, or earlier, when by this broker's clock the session has expired.
    """


@dataclass(frozen=True, slots=True)
class ReassignmentsRequested:
    """An administrator wrote to the store which replicas partitions shall have."""

    replicas: Mapping[Place, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ElectionsRequested:
    """An administrator wrote to the store: preferred replicas of these partitions shall lead."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """A leader wrote a new ISR to the store itself, as before AlterPartition (KIP-497)."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class LogDirsFailed:
    """Log directories of these brokers failed; their LeaderAndIsr answers name the partitions."""

    broker_ids: tuple[int, ...]


StoreEvent = (
    ControllerGone
    | BrokerEnded
    | SessionSuspended
    | SessionResumed
    | SessionLost
    | ReassignmentsRequested
    | ElectionsRequested
    | IsrChanged
    | LogDirsFailed
)


class ClusterStore(MetadataStore, Protocol):
    """A MetadataStore that several brokers share, one of which is the controller.

    Every broker's image has the live brokers, the controller and the configs.  Topics are in the
    image of the controller alone: other brokers get them by the controller's requests.  (A store
    may give topics to every broker.)

    Only the controller may commit changes of topics and partitions.  The controller epoch fences
    each: `commit` raises Fenced if there is a later epoch.  Any broker may set configs and
    features.  The store sets the partition epochs and the feature epoch of the new image, whatever
    the change named.  A partition with epoch -1 was created by another broker, and has no leader
    until the controller elects one.

    When this broker stops being the controller, by an election or with its session, the topics
    leave its image, and the delta lists them as deleted.  Only a controller may read this as a
    deletion.
    """

    can_register_again: bool
    """Whether a broker may register again after SessionLost; otherwise it has to end."""
    on_event: Callable[[StoreEvent], None] | None
    """Called on the loop with events that do not change the image; ControllerGone may repeat."""

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """Register a live broker (see MetadataStore); the broker in the image has its epoch.

        Call it again after SessionLost.  A SessionLost that comes before this method returns is
        about an earlier session.  Waits until the registration of an earlier process of this broker
        has expired.  If another live broker has this id, raises a StoreError that names it.
        """

    async def read_configs(self, keys: Iterable[ResourceKey]) -> ClusterImage:
        """Read the configs of `keys`; returns the image with them.

        Call it when this broker gets its first replica of a topic: the store does not announce the
        configs of a new topic (as in Apache Kafka).
        """

    async def has_topics(self) -> bool:
        """Whether the cluster has topics, even if the image has none.  Raises StoreError."""

    async def drop_reassignments(self, places: Iterable[Place]) -> None:
        """Remove refused reassignments of a ReassignmentsRequested from the store.

        Accepted ones leave the store when the image has them in progress.
        """

    async def log_dir_failed(self) -> None:
        """Send LogDirsFailed of this broker to the controller.  Raises StoreError."""

    async def campaign(self) -> bool:
        """Try to become the controller.

        True: this broker is the controller, the image has all topics and the new controller
        epoch, and watchers have got this image.  Raises StoreError.
        """

    async def resign(self) -> None:
        """Stop being the controller, if this broker is; another may be elected at once."""
