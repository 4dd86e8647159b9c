"""A broker's part in its cluster, as the rest of the broker sees it.

`alone.LoneMembership` is that of a broker which is a cluster by itself, `member.Member` that of one
among others.  Nobody outside this room asks which of them it is.
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
    from kwire.cluster.replication.manager import ReplicaManager
    from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from kwire.log import Log


class ClusterMembership(Protocol):
    """See the module."""

    @property
    def replication(self) -> ReplicaManager | None:
        """Leads with followers and follows; None where there are no other brokers to do it with."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as this broker tells its clients of it."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker decides for the cluster."""

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Commit what `decisions` change; each is asked anew if somebody else was faster.

        A decision must go by the image it is given.  When this returns, what was decided last is
        applied here.  Any broker may change configs, access control lists and delegation tokens;
        the controller alone may change all else.  Raises StoreError, NotController.
        """

    async def ask(self, question: Callable[[ClusterController], ControllerEffects]) -> Any:  # noqa: ANN401 - any reply
        """The controller's reply, if this broker is it.  Raises NotController, StoreError."""

    async def wait_until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        """Wait until `image` satisfies `seen`; False if it does not in time."""

    def call_when(self, seen: Callable[[ClusterImage], bool], then: Callable[[], None]) -> None:
        """Call `then` once `image` satisfies `seen`."""

    @property
    def has_metadata(self) -> bool:
        """Whether `image` has the brokers of the cluster, and its topics if there are any."""

    async def wait_for_metadata(self, timeout_ms: int) -> None:
        """Return once `has_metadata`, or after `timeout_ms`."""

    async def create_internal_topic(self, name: str) -> None:
        """Create the topic of a coordinator unless it exists.  Raises Refusal, StoreError."""

    async def create_on_first_use(self, names: Sequence[str]) -> None:
        """Create the topics that a client asked for and that do not exist.  Raises StoreError."""

    async def ask_for_topics(self, wanted: Sequence[NewTopic]) -> Mapping[str, str | None]:
        """Have the controller, another broker, create topics: why it did not, by topic.

        Raises StoreError.
        """

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, version: int
    ) -> LeaderAndIsrResponse:
        """Lead and follow partitions as the controller says."""

    def configs_changed(self, changed: Collection[ResourceKey]) -> None:
        """The configs of these resources have changed."""

    def logs_lost(self, path: Path, lost: list[Log]) -> bool:
        """The log directory `path` has failed, and these logs with it.

        Whether the broker can go on: a broker alone cannot without the directory that has the
        metadata.
        """

    def open_missing(self) -> None:
        """Try again to open the partitions for which the disk had no room."""

    async def leave(self) -> None:
        """Hand over to other brokers what this broker leads, and the office of controller."""
