"""`kwire serve --apply`: a broker has what a file declares before anybody is let in.

It asks itself, over a connection of its own that nothing holds back (kwire.server.network.own), in
a thread, for the client waits.  Nothing is ever removed here.
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
from kwire.client.connection import Connection
from kwire.client.errors import ClientError
from kwire.settings import ConfigError

if TYPE_CHECKING:
    from kwire.cli.declared_state.files import Declaration
    from kwire.cli.declared_state.plan import Change
    from kwire.client.security import ClientSecurity

CLIENT_ID: Final = "kwire-apply"
TIMEOUT_S: Final = 60.0

log = logging.getLogger("kwire.apply")


class _OwnConnection(Connection):
    """Over a socket that is there."""

    def __init__(self, given: socket.socket) -> None:
        self._given = given
        super().__init__("the broker itself", 0, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)

    def _opened(self, security: ClientSecurity | None) -> socket.socket:
        return self._given


class _OwnCluster(Cluster):
    """All roles are the one broker's."""

    def __init__(self, client: socket.socket) -> None:
        super().__init__("localhost", client_id=CLIENT_ID, timeout_s=TIMEOUT_S)
        self._own = _OwnConnection(client)

    def any(self) -> Connection:
        return self._own

    def node(self, node_id: int, role: str = "") -> Connection:
        return self._own

    def controller(self) -> Connection:
        return self._own


def declaring(declaration: Declaration) -> Callable[[socket.socket], Awaitable[None]]:
    """What kwire.server.server calls at start.  It raises ConfigError where something cannot be."""

    async def declare(client: socket.socket) -> None:
        await trio.to_thread.run_sync(partial(_apply, client, declaration), abandon_on_cancel=True)

    return declare


def _apply(client: socket.socket, declaration: Declaration) -> None:
    try:
        cluster = _OwnCluster(client)
        made = planned(cluster, declaration)
    except ClientError as problem:
        raise ConfigError(f"not applied: {problem}") from problem
    problems = made.conflicts
    if not problems:
        problems = carry_out(cluster, made.changes, declaration.folder, _tell).failures
    if problems:
        raise ConfigError(f"not applied: {'; '.join(problems)}")
    if not made.changes:
        log.info("all that is declared is there")


def _tell(change: Change) -> None:
    log.info("%s %s", sign(change), title(change))
