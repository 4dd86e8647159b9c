"""Committing for a client, which is told where the store refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from logging import Logger, getLogger
from typing import TYPE_CHECKING, Any, TypeVar

from kwire.cluster.decisions.config_changes import ConfigChange, config_decisions
from kwire.cluster.metadata.changes import Decision
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.contract import Fenced, NotController, StoreError
from kwire.codecs.errors import ErrorCode

if TYPE_CHECKING:
    from kwire.cluster.controller.effects import ControllerEffects
    from kwire.cluster.controller.machine import ClusterController
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.settings.live import LiveSettings

_logger = getLogger("kwire.broker")

T = TypeVar("T")

NOT_THE_CONTROLLER = "This is not the correct controller for this cluster."


async def commit_for_client(
    membership: ClusterMembership, decisions: Sequence[Decision], log: Logger, otherwise: str
) -> Refusal | None:
    """Commit; where the store cannot, `log` has why, after `otherwise`, and so has the client.

    A client that asked another broker than the controller is told to ask that one.
    """
    try:
        await membership.commit(decisions)
    except (Fenced, NotController):
        return Refusal(ErrorCode.NOT_CONTROLLER, NOT_THE_CONTROLLER)
    except StoreError as problem:
        log.error("%s: %s", otherwise, problem)
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
    return None


async def create_internal_topic(membership: ClusterMembership, name: str) -> None:
    """Create the topic of a coordinator unless it exists; if that fails, the log says why."""
    try:
        await membership.create_internal_topic(name)
    except Refusal as refusal:
        _logger.error("topic %s cannot be created: %s", name, refusal.message)
    except StoreError as problem:
        _logger.error("topic %s cannot be created: %s", name, problem)


async def ask_for_client(
    membership: ClusterMembership,
    question: Callable[[ClusterController], ControllerEffects],
    log: Logger,
    otherwise: str,
) -> Any:  # noqa: ANN401 - any reply
    """The controller's reply.

    Raises Refusal, where a client is to ask another broker, or the store cannot: `log` has why.
    """
    try:
        return await membership.ask(question)
    except (Fenced, NotController):
        raise Refusal(ErrorCode.NOT_CONTROLLER, NOT_THE_CONTROLLER) from None
    except StoreError as problem:
        log.error("%s: %s", otherwise, problem)
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)) from None


async def still_missing(
    membership: ClusterMembership, missing: Callable[[ClusterImage], Sequence[T]], timeout_ms: int
) -> Sequence[T]:
    """What is `missing` from what this broker tells clients, after so long at the most."""
    if await membership.wait_until(lambda image: not missing(image), timeout_ms):
        return ()
    return missing(membership.image)


async def commit_configs(
    membership: ClusterMembership,
    settings: LiveSettings,
    changes: Sequence[ConfigChange],
    log: Logger,
) -> None:
    """Make the changes that can be made; the others get their `refusal`."""
    wanted = [change for change in changes if change.refusal is None]
    refusal = await commit_for_client(
        membership, config_decisions(settings, wanted), log, "configs are not changed"
    )
    if refusal is not None:
        for change in wanted:
            change.refusal = refusal
