"""Committing for a client, which is told where the store refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from logging import Logger
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kwire.cluster.store import Fenced, NotController, StoreError
from kwire.codecs.errors import ErrorCode
from kwire.controller.config_changes import Change, decisions
from kwire.controller.host import ControllerHost
from kwire.metadata.changes import Decision
from kwire.metadata.refusal import Refusal

if TYPE_CHECKING:
    from kwire.controller.cluster.effects import Effects
    from kwire.controller.cluster.machine import ClusterController
    from kwire.metadata.image import ClusterImage

T = TypeVar("T")

NOT_THE_CONTROLLER = "This is not the correct controller for this cluster."


class Committer(Protocol):
    """See kwire.broker.Broker."""

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Raises StoreError."""


class Asked(Protocol):
    """See kwire.broker.Broker."""

    async def ask_controller(self, question: Callable[[ClusterController], Effects]) -> Any:  # noqa: ANN401 - any reply
        """Raises NotController, StoreError."""


class Watching(Protocol):
    """See kwire.broker.Broker."""

    @property
    def image(self) -> ClusterImage: ...

    async def until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool: ...


class ConfigCommitter(Committer, ControllerHost, Protocol):
    """See kwire.broker.Broker."""


async def commit_for_client(
    broker: Committer, decisions: Sequence[Decision], log: Logger, otherwise: str
) -> Refusal | None:
    """Commit; where the store cannot, `log` has why, after `otherwise`, and so has the client.

    A client that asked another broker than the controller is told to ask that one.
    """
    try:
        await broker.commit(decisions)
    except (Fenced, NotController):
        return Refusal(ErrorCode.NOT_CONTROLLER, NOT_THE_CONTROLLER)
    except StoreError as problem:
        log.error("%s: %s", otherwise, problem)
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
    return None


async def ask_for_client(
    broker: Asked, question: Callable[[ClusterController], Effects], log: Logger, otherwise: str
) -> Any:  # noqa: ANN401 - any reply
    """The controller's reply.

    Raises Refusal, where a client is to ask another broker, or the store cannot: `log` has why.
    """
    try:
        return await broker.ask_controller(question)
    except (Fenced, NotController):
        raise Refusal(ErrorCode.NOT_CONTROLLER, NOT_THE_CONTROLLER) from None
    except StoreError as problem:
        log.error("%s: %s", otherwise, problem)
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)) from None


async def still_missing(
    broker: Watching, missing: Callable[[ClusterImage], Sequence[T]], timeout_ms: int
) -> Sequence[T]:
    """What is `missing` from what this broker tells clients, after so long at the most."""
    if await broker.until(lambda image: not missing(image), timeout_ms):
        return ()
    return missing(broker.image)


async def commit_configs(broker: ConfigCommitter, changes: Sequence[Change], log: Logger) -> None:
    """Make the changes that can be made; the others get their `refusal`."""
    wanted = [change for change in changes if change.refusal is None]
    refusal = await commit_for_client(
        broker, decisions(broker, wanted), log, "configs are not changed"
    )
    if refusal is not None:
        for change in wanted:
            change.refusal = refusal
