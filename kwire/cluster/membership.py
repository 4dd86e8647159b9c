"""What a broker's part in a cluster does for the rest of the broker; `member.Member` is it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from kwire.controller.cluster.effects import Effects
    from kwire.controller.cluster.machine import ClusterController
    from kwire.controller.topic_creation import NewTopic
    from kwire.metadata.changes import Decision
    from kwire.metadata.image import ClusterImage, ResourceKey


class Membership(Protocol):
    """See the module."""

    @property
    def is_controller(self) -> bool: ...

    async def ask(self, question: Callable[[ClusterController], Effects]) -> Any:  # noqa: ANN401 - by what is asked
        """The controller's answer, where this broker is it.  Raises NotController, StoreError."""

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """See Broker.commit.  Configs are any broker's to change, all else the controller's."""

    async def create_internal_topic(self, name: str) -> None:
        """By the controller, which may be another broker.  Raises Refusal, StoreError."""

    async def create_on_first_use(self, names: Sequence[str]) -> None:
        """Topics that a client asked for and that are not there.  Raises StoreError."""

    async def ask_for_topics(self, wanted: Sequence[NewTopic]) -> Mapping[str, str | None]:
        """Have the controller, another broker, make topics: why some were not.

        Raises StoreError.
        """

    async def read_configs(self, keys: Iterable[ResourceKey]) -> None:
        """Have the broker know what is set on these now.  Raises StoreError."""

    @property
    def is_told(self) -> bool:
        """Whether the controller has told this broker of others, and of topics if there are any."""

    async def told(self, timeout_ms: int) -> None:
        """Return once it is, or has waited in vain for so long."""

    async def until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        """Whether what this broker tells clients becomes so in time."""

    def when(self, seen: Callable[[ClusterImage], bool], then: Callable[[], None]) -> None:
        """Call `then` once what this broker tells clients is so."""

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, version: int
    ) -> LeaderAndIsrResponse:
        """Lead and follow as told; what is set on topics that are new here is read before."""

    async def tell_offline(self) -> None:
        """A log directory has failed: the controller is to ask which partitions were in it."""

    async def leave(self) -> None:
        """Have others lead what this broker leads, as far as they can, and give up the office."""
