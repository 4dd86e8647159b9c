"""Committing for a client, which is told where the store refuses."""

from __future__ import annotations

from collections.abc import Sequence
from logging import Logger
from typing import Protocol

from kwire.cluster.store import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.controller.config_changes import Change, decisions
from kwire.controller.host import ControllerHost
from kwire.metadata.changes import Decision
from kwire.metadata.refusal import Refusal


class Committer(Protocol):
    """See kwire.broker.Broker."""

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Raises StoreError."""


class ConfigCommitter(Committer, ControllerHost, Protocol):
    """See kwire.broker.Broker."""


async def commit_for_client(
    broker: Committer, decisions: Sequence[Decision], log: Logger, otherwise: str
) -> Refusal | None:
    """Commit; where the store cannot, `log` has why, after `otherwise`, and so has the client."""
    try:
        await broker.commit(decisions)
    except StoreError as problem:
        log.error("%s: %s", otherwise, problem)
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
    return None


async def commit_configs(broker: ConfigCommitter, changes: Sequence[Change], log: Logger) -> None:
    """Make the changes that can be made; the others get their `refusal`."""
    wanted = [change for change in changes if change.refusal is None]
    refusal = await commit_for_client(
        broker, decisions(broker, wanted), log, "configs are not changed"
    )
    if refusal is not None:
        for change in wanted:
            change.refusal = refusal
