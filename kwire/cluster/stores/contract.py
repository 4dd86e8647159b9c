"""The store of the cluster's metadata, as the rest of the broker sees it.

One process of a single node keeps it in a file (`kwire.cluster.stores.local`), a cluster in
ZooKeeper. Nothing outside `kwire.cluster` may ask which one it is;
tests/cluster/test_store_contract.py says what all must do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kwire.cluster.metadata.changes import Change
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, ResourceKey

Watcher = Callable[[ClusterImage, ClusterDelta], None]
"""Called on the trio loop with each new image and what is new in it, in the order of versions."""


class StoreError(Exception):
    """The store cannot be read or written; the sentence says which and why."""


class Fenced(StoreError):
    """Another broker is the controller by now: what this one decided as such is void."""


class NotController(StoreError):
    """Only the controller may do this, and another broker, or none, is it."""


class MetadataStore(Protocol):
    """What keeps the cluster's metadata, and tells everybody the same story of its changes.

    The unit is the change: each is made whole or not at all, and only where its precondition
    holds.  There is no compare-and-set of the whole image: ZooKeeper has a version for each znode,
    a KRaft quorum a log of records.  What may wait for a disk or a server is async.  An image that
    `commit` returned or a watcher was given is durable.
    """

    async def load(self) -> ClusterImage:
        """The latest committed image."""

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        """Make `changes`, in their order; returns an image that has them, once watchers saw it.

        Raises Conflict at the first one whose precondition does not hold: it says how many before
        it are made.  The image that is in the way has been published then.  Raises StoreError; what
        is made then is not known, where the store is another machine.
        """

    def watch(self, watcher: Watcher) -> None:
        """Have `watcher` called with every image committed from now on, by whomever."""

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """Announce a live broker; it is listed as long as this store is open."""

    async def allocate_producer_ids(self, count: int) -> range:
        """`count` producer ids that nobody was or will be given."""

    def close(self) -> None:
        """Release what is held; registrations of this process end."""


# -- a store that several brokers share

Place = tuple[str, int]
"""A partition: topic and index."""


@dataclass(frozen=True, slots=True)
class ControllerGone:
    """Nobody is the controller: whoever wants to be may campaign."""


@dataclass(frozen=True, slots=True)
class SessionSuspended:
    """The store cannot be reached: whether this broker is still a member is not known."""


@dataclass(frozen=True, slots=True)
class SessionBack:
    """It is reached again, and nothing was lost meanwhile."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The cluster has seen this broker go; it has to register anew, and leads nothing until then.

    Told when the store says so, and before that when by this broker's clock it must be so.
    """


@dataclass(frozen=True, slots=True)
class ReassignmentsAsked:
    """By an administrator, in the store: the replicas that partitions are to have."""

    replicas: Mapping[Place, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ElectionsAsked:
    """By an administrator, in the store: partitions whose preferred replica is to lead."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """A leader has written another ISR itself, as before AlterPartition (KIP-497)."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class LogDirsFailed:
    """A broker has lost log directories; LeaderAndIsr to it tells which partitions."""

    broker_ids: tuple[int, ...]


StoreEvent = (
    ControllerGone
    | SessionSuspended
    | SessionBack
    | SessionLost
    | ReassignmentsAsked
    | ElectionsAsked
    | IsrChanged
    | LogDirsFailed
)


class ClusterStore(MetadataStore, Protocol):
    """A MetadataStore that several brokers share, one of which is the controller.

    `load` gives who is a member and the configs; topics are in the image of the controller alone,
    for a broker learns of them by the controller's requests.  Watchers hear of brokers, controller
    and configs from the start, of topics while this broker is the controller.

    `commit` takes changes of topics and partitions from the controller alone, each fenced by its
    epoch: Fenced if there is a later one.  Any broker may set configs and features.  The partition
    epochs of an image that comes back, and the epoch of its features, are the store's own, whatever
    a change said they would be; a partition whose epoch is -1 has been made by another broker, and
    waits for the controller to say who leads it.  Where the office is lost, by another's election
    or with the session, the topics leave the image, and the delta says so: nobody but the
    controller may take that for a deletion.
    """

    has_way_back: bool
    """Whether a broker may register anew after SessionLost; else that is its end."""
    on_event: Callable[[StoreEvent], None] | None
    """Called on the loop with what is no change of the image; ControllerGone may come again."""

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """See MetadataStore: its epoch is that of the broker in the image.

        To be called again after SessionLost; one that is told before this has returned is of an
        earlier session than the registration's.  Waits while the registration of an earlier process
        of this broker has not expired; a StoreError names the broker that has this id for good.
        """

    async def read_configs(self, keys: Iterable[ResourceKey]) -> ClusterImage:
        """The image, with what is set on these now: to be called for a topic that comes to this
        broker, for what is set on a new topic is told to nobody (as in Apache Kafka)."""

    async def has_topics(self) -> bool:
        """Whether there are any now, also where the image has none of them.  Raises StoreError."""

    async def drop_reassignments(self, places: Iterable[Place]) -> None:
        """Those of a ReassignmentsAsked that are refused: they are asked for no more.

        The others go by themselves, once the image has them under way.
        """

    async def log_dir_failed(self) -> None:
        """Have the controller hear LogDirsFailed of this broker.  Raises StoreError."""

    async def campaign(self) -> bool:
        """Try to become the controller.

        If so the image has all topics now, its `controller_id` and `controller_epoch` are this
        broker's, and watchers have seen it.  Raises StoreError.
        """

    async def resign(self) -> None:
        """Be the controller no longer, if this broker is; another may be elected at once."""
