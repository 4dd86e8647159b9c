"""The interface of a broker's membership in its cluster, for the rest of the broker.

`alone.LoneMembership` implements it for a broker that is a cluster by itself,
`member.ClusterMember` for a broker among others.  Code outside this package does not need to know
which one it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kwire.cluster.controller.effects import ControllerEffects
    from kwire.cluster.controller.machine import ClusterController
    from kwire.cluster.decisions.topic_creation import NewTopic
    from kwire.cluster.metadata.changes import Decision
    from kwire.cluster.metadata.image import ClusterImage, ResourceKey
    from kwire.cluster.metadata.quorum import MetadataQuorum
    from kwire.cluster.replication.controller_requests import ControllerRequests
    from kwire.cluster.replication.manager import ReplicaManager
    from kwire.cluster.stores.kraft.forwarding import Forwarding, RequestSender
    from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from kwire.log import Log


class ClusterMembership(Protocol):
    """A broker's membership in its cluster."""

    @property
    def replication(self) -> ReplicaManager | None:
        """Replication with other brokers; None in a cluster of one broker."""

    @property
    def controller_requests(self) -> ControllerRequests | None:
        """Carries out LeaderAndIsr, StopReplica and UpdateMetadata.

        None if no controller sends them: in a cluster of one broker, and beside KRaft controllers.
        """

    @property
    def forwarding(self) -> Forwarding | None:
        """Sends requests of clients on to KRaft controllers; None without such controllers."""

    @property
    def image(self) -> ClusterImage:
        """The metadata from which this broker answers its clients."""

    @property
    def ended_brokers(self) -> Collection[int]:
        """Brokers that have just ended: the controller elects leaders for their partitions now.

        Empty if nobody notices the end of a process before its session expires.
        """

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller."""

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Commit the changes of `decisions`; each is decided again if another change came first.

        A decision must use only the image that it gets.  On return, the last change is applied to
        this broker's `image`.  Any broker may change configs, access control lists and delegation
        tokens; all other changes are the controller's.  Raises StoreError, NotController.
        """

    async def ask(self, question: Callable[[ClusterController], ControllerEffects]) -> Any:  # noqa: ANN401 - any reply
        """The controller's reply, if this broker is the controller.

        Raises NotController, StoreError.
        """

    async def wait_until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        """Wait until `image` satisfies `seen`; False after `timeout_ms`."""

    def call_when(self, seen: Callable[[ClusterImage], bool], then: Callable[[], None]) -> None:
        """Call `then` once `image` satisfies `seen`."""

    @property
    def has_metadata(self) -> bool:
        """Whether `image` has the cluster's brokers, and its topics if there are any."""

    async def wait_for_metadata(self, timeout_ms: int) -> None:
        """Return once `has_metadata`, or after `timeout_ms`."""

    async def quorum(self) -> MetadataQuorum:
        """Return the leader of the metadata, and how far the brokers have followed it.

        Raises StoreError; on ZooKeeper always, because it has no quorum of controllers.
        """

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove the registration of a broker from the cluster.  The broker may register again.

        Raises Refusal, StoreError.
        """

    async def create_internal_topic(self, name: str) -> None:
        """Create the topic of a coordinator if it does not exist.  Raises Refusal, StoreError."""

    async def create_on_first_use(
        self, names: Sequence[str], sender: RequestSender | None = None
    ) -> None:
        """Create topics that a client named and that do not exist.  Raises StoreError.

        `sender` is the client, which has the right to create them; None: this broker.
        """

    async def ask_for_topics(self, wanted: Sequence[NewTopic]) -> Mapping[str, str | None]:
        """Send CreateTopics to the controller, another broker.

        Returns the error message of each topic that was not created.  Raises StoreError.
        """

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, version: int
    ) -> LeaderAndIsrResponse:
        """Lead and follow partitions as the controller requests."""

    def configs_changed(self, changed: Collection[ResourceKey]) -> None:
        """Act on new configs of these resources."""

    def logs_lost(self, path: Path, lost: list[Log]) -> bool:
        """The log directory `path` failed, and these logs with it.

        Returns whether the broker can go on: one that is a cluster by itself cannot without the
        directory that holds the metadata.
        """

    def open_missing(self) -> None:
        """Try again to open partitions for which the disk had no room."""

    async def leave(self) -> None:
        """Hand over to other brokers what this one leads, and resign as controller."""
