"""Commits for a client's request, which turn errors of the store into a Refusal for the client."""

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
    """Commits `decisions`; returns None, or the Refusal for the client if that fails.

    `log` gets the error of the store, after the text `otherwise`.  A client of another broker than
    the controller gets NOT_CONTROLLER, and asks the controller.
    """
    try:
        await membership.commit(decisions)
    except (Fenced, NotController):
        return Refusal(ErrorCode.NOT_CONTROLLER, NOT_THE_CONTROLLER)
    except StoreError as error:
        log.error("%s: %s", otherwise, error)
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return None


async def create_internal_topic(membership: ClusterMembership, name: str) -> None:
    """Create the topic of a coordinator if it does not exist.  A failure is only logged."""
    try:
        await membership.create_internal_topic(name)
    except Refusal as refusal:
        _logger.error("Cannot create internal topic %s: %s", name, refusal.message)
    except StoreError as error:
        _logger.error("Cannot create internal topic %s: %s", name, error)


async def ask_for_client(
    membership: ClusterMembership,
    question: Callable[[ClusterController], ControllerEffects],
    log: Logger,
    otherwise: str,
) -> Any:  # noqa: ANN401 - any reply
    """Return the controller's reply to a client's request.

    Raises Refusal if this broker is not the controller, or if the store cannot commit; `log` then
    gets the error.
    """
    try:
        return await membership.ask(question)
    except (Fenced, NotController):
        raise Refusal(ErrorCode.NOT_CONTROLLER, NOT_THE_CONTROLLER) from None
    except StoreError as error:
        log.error("%s: %s", otherwise, error)
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None


async def still_missing(
    membership: ClusterMembership, missing: Callable[[ClusterImage], Sequence[T]], timeout_ms: int
) -> Sequence[T]:
    """Waits up to `timeout_ms` for metadata; returns what of it is still missing.

    `missing` returns what this broker's metadata lacks.
    """
    if await membership.wait_until(lambda image: not missing(image), timeout_ms):
        return ()
    return missing(membership.image)


async def commit_configs(
    membership: ClusterMembership,
    settings: LiveSettings,
    changes: Sequence[ConfigChange],
    log: Logger,
) -> None:
    """Commit the changes that are not refused; those that fail get their `refusal`."""
    wanted = [change for change in changes if change.refusal is None]
    refusal = await commit_for_client(
        membership, config_decisions(settings, wanted), log, "Cannot change configs"
    )
    if refusal is not None:
        for change in wanted:
            change.refusal = refusal
