"""`kwire serve --apply`: applies a declaration to the broker before clients can connect.

The broker sends requests to itself over an internal connection (kwire.server.network.own).  They
run in a thread, since the client blocks.  Nothing is ever removed here.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from kwire.cli.declared_state.carrying import carry_out, planned
from kwire.cli.declared_state.words import sign, title
from kwire.client.cluster import Cluster
from kwire.client.connection import BrokerConnection
from kwire.client.errors import ClientError
from kwire.settings import ConfigError

if TYPE_CHECKING:
    from kwire.cli.declared_state.files import Declaration
    from kwire.cli.declared_state.plan import Change
    from kwire.client.security import ClientSecurity

CLIENT_ID: Final = "kwire-apply"
TIMEOUT_S: Final = 60.0

log = logging.getLogger("kwire.apply")


class _OwnConnection(BrokerConnection):
    """A connection over a socket that is already connected to the broker."""

    def __init__(self, given: socket.socket) -> None:
        self._given = given
        super().__init__("the broker itself", 0, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)

    def _opened(self, security: ClientSecurity | None) -> socket.socket:
        return self._given


class _OwnCluster(Cluster):
    """A cluster of this one broker, which has all roles."""

    def __init__(self, client: socket.socket) -> None:
        super().__init__("localhost", client_id=CLIENT_ID, timeout_s=TIMEOUT_S)
        self._own = _OwnConnection(client)

    def any(self) -> BrokerConnection:
        return self._own

    def node(self, node_id: int, role: str = "") -> BrokerConnection:
        return self._own

    def controller(self) -> BrokerConnection:
        return self._own


def declaring(declaration: Declaration) -> Callable[[socket.socket], Awaitable[None]]:
    """The function that kwire.server.server calls at start to apply the declaration.

    It raises ConfigError if the declaration conflicts with the broker or a change fails.
    """

    async def declare(client: socket.socket) -> None:
        await trio.to_thread.run_sync(partial(_apply, client, declaration), abandon_on_cancel=True)

    return declare


def _apply(client: socket.socket, declaration: Declaration) -> None:
    """Applies the declaration through the broker's internal connection.  Raises ConfigError, which
    ends the broker, if it conflicts with the broker's state or a change fails."""
    try:
        cluster = _OwnCluster(client)
        plan = planned(cluster, declaration)
    except ClientError as problem:
        raise ConfigError(f"cannot apply the declaration: {problem}") from problem
    problems = plan.conflicts
    if not problems:
        problems = carry_out(cluster, plan.changes, declaration.folder, _log_change).failures
    if problems:
        raise ConfigError(f"cannot apply the declaration: {'; '.join(problems)}")
    if not plan.changes:
        log.info("nothing to change: the broker has all that is declared")


def _log_change(change: Change) -> None:
    log.info("%s %s", sign(change), title(change))
