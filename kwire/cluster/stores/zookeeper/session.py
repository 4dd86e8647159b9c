"""ZooKeeperSession: the sessions of this broker in ZooKeeper, one after another, and its requests.

A session is suspended while it has no connection; requests wait meanwhile.  A session is lost when
ZooKeeper says that it has expired, or when it must have expired by this broker's clock.  Its
ephemeral znodes are gone then, or will be soon, and the next session begins.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import trio
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.protocol.states import ZnodeStat
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.cluster.stores.zookeeper.link import KazooLink, KazooReply, log

IN_FLIGHT_MAX = 128
"""Requests in flight.  For each request kazoo writes a byte to a non-blocking socket, to wake its
thread.  If that socket is full, kazoo reports the request as failed, but sends it all the same."""

EPHEMERAL = 1
SEQUENTIAL = 2
_OPEN_PATHS = ("/consumers",)
_SENSITIVE_PATHS = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""As in Apache Kafka: every client may write the open paths, no client may read the sensitive."""

ZnodeOperation: TypeAlias = Any
"""An operation of `multi`: kazoo's Create, SetData, Delete or CheckVersion, with the full path."""

_LOST = (ConnectionLoss, SessionExpiredError, ConnectionClosedError)


class OutcomeUnknown(StoreError):
    """The connection was lost during a write: ZooKeeper may have made it or not."""


class TransactionRefused(Exception):
    """ZooKeeper refused operation number `at` of a transaction, so it made none of them."""

    def __init__(self, at: int, reason: Exception) -> None:
        super().__init__(f"operation {at}: {reason!r}")
        self.at = at
        self.reason = reason


class SessionState(enum.Enum):
    NONE = "none"
    """There is no session: none has begun, or the last one is lost."""
    UP = "up"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class ZooKeeperSession:
    """See the module.

    `on_state` is called with each new state, `on_znode` with the path of each watched znode that
    changed; both on the loop.  All paths are relative to the chroot.
    """

    def __init__(
        self,
        config: ZooKeeperConfig,
        on_state: Callable[[SessionState], None],
        on_znode: Callable[[str], None],
    ) -> None:
        """`on_state` gets each new state; `on_znode` the path of a watch that fires."""
        self._config = config
        self._root = config.chroot
        self._on_state, self._on_znode = on_state, on_znode
        self._link: KazooLink | None = None
        self._changed = trio.Event()
        self._slots = trio.Semaphore(IN_FLIGHT_MAX)
        self.state = SessionState.NONE
        self.id = 0
        """Id of the session; of the last one while there is none."""
        self.ids: set[int] = set()
        """Ids of all sessions of this process: their ephemeral znodes are this broker's."""
        self.connects = 0
        """Number of connections so far; watches set on an earlier connection are void."""

    async def run(self) -> None:
        """Keep a session until `close` is called, or until cancelled."""
        async with trio.open_nursery() as nursery:
            try:
                self._open()
                while self.state is not SessionState.CLOSED:
                    changed, remaining_s = self._changed, self._remaining_s()
                    if remaining_s <= 0:
                        log.warning(
                            "ZooKeeper was unreachable for longer than the session timeout. The"
                            " session is lost; starting a new one."
                        )
                        nursery.start_soon(self._replace_link().close)
                        self._be(SessionState.NONE)
                        continue
                    with trio.move_on_after(remaining_s):
                        await changed.wait()
                    if self._link is not None and self._link.has_ended:
                        # kazoo gave up: ZooKeeper refused it, or an unexpected error occurred.
                        # The pause keeps repeated failures from using up the processor.
                        await trio.sleep(1)
                        nursery.start_soon(self._replace_link().close)
            finally:
                self._be(SessionState.CLOSED)
                if self._link is not None:
                    await self._link.close()

    def close(self) -> None:
        """Make `run` end the session and return."""
        self._be(SessionState.CLOSED)

    # -- states

    def _open(self) -> None:
        self._link = KazooLink(self._config, self._on_link_state, self._on_link_znode)
        self._link.open()

    def _replace_link(self) -> KazooLink:
        """Opens a new link and fails the requests of the present one.

        Returns the former link, which the caller has to stop.
        """
        link = self._link
        assert link is not None
        self._open()
        link.fail_outstanding()
        return link

    def _remaining_s(self) -> float:
        if self.state is not SessionState.SUSPENDED or self._link is None:
            return float("inf")
        return self._link.expires_at() - time.monotonic()

    def _on_link_state(self, link: KazooLink, kazoo_state: str, session_id: int) -> None:
        """Sets the session's state after an event of kazoo.

        Events of an earlier link, and those after `close`, are ignored.
        """
        if link is not self._link or self.state is SessionState.CLOSED:
            return
        if kazoo_state == "CONNECTED":
            if self.state is SessionState.SUSPENDED and session_id != self.id:
                # The session expired while it was suspended: report its loss first.
                self._be(SessionState.NONE)
            self.id = session_id
            self.ids.add(session_id)
            self.connects += 1
            self._be(SessionState.UP)
        elif kazoo_state == "SUSPENDED" and self.state is SessionState.UP:
            self._be(SessionState.SUSPENDED)
        elif kazoo_state == "LOST":
            self._be(SessionState.NONE)

    def _be(self, state: SessionState) -> None:
        """Sets the state, wakes the tasks that wait for a change, and reports it."""
        before, self.state = self.state, state
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        if state is not before and before is not SessionState.CLOSED:
            self._on_state(state)

    def _on_link_znode(self, path: str) -> None:
        if self.state is not SessionState.CLOSED:
            self._on_znode(path[len(self._root) :] or "/")

    async def connected(self) -> KazooLink:
        """Waits for a connection and returns its link.

        Raises StoreError if that takes too long.
        """
        with trio.move_on_after(self._config.connection_timeout_ms / 1000):
            while self.state not in (SessionState.UP, SessionState.CLOSED):
                await self._changed.wait()
        if self.state is SessionState.CLOSED:
            raise StoreError("the session in ZooKeeper is closed: the broker is stopping")
        if self.state is not SessionState.UP or self._link is None:
            raise StoreError(
                f"ZooKeeper at {self._config.servers} was not reached within"
                f" zookeeper.connection.timeout.ms, {self._config.connection_timeout_ms} ms"
            )
        return self._link

    # -- reads: repeated after the connection was lost

    async def get(self, path: str, watch: bool = False) -> tuple[bytes, ZnodeStat] | None:
        """Content and stat of a znode, None if it does not exist.

        `watch` sets a watch only if it exists.
        """
        return (await self.get_all([path], watch))[0]

    async def get_all(
        self, paths: Sequence[str], watch: bool = False
    ) -> list[tuple[bytes, ZnodeStat] | None]:
        """`get` of each path, up to IN_FLIGHT_MAX at a time."""
        answers = await self._ask_all(paths, lambda link, path: link.get(path, watch))
        return [None if answer is None else (answer[0] or b"", answer[1]) for answer in answers]

    async def children(self, path: str, watch: bool = False) -> list[str]:
        """Sorted names of the children; none if the znode does not exist."""
        return (await self.children_of_all([path], watch))[0]

    async def children_of_all(self, paths: Sequence[str], watch: bool = False) -> list[list[str]]:
        answers = await self._ask_all(paths, lambda link, path: link.children(path, watch))
        return [sorted(names or ()) for names in answers]

    async def exists(self, path: str, watch: bool = False) -> ZnodeStat | None:
        """The stat of a znode, None if it does not exist; `watch` sets a watch in both cases."""
        answers = await self._ask_all([path], lambda link, path: link.exists(path, watch))
        stat: ZnodeStat | None = answers[0]
        return stat

    async def _ask_all(
        self, paths: Sequence[str], ask: Callable[[KazooLink, str], KazooReply]
    ) -> list[Any]:
        """Return the replies to a read of each path, in order.

        Sends up to IN_FLIGHT_MAX reads at a time.  After a lost connection it repeats only the
        reads without a reply.  Raises StoreError.
        """
        answers: list[Any] = []
        while len(answers) < len(paths):
            link = await self.connected()
            part = [self._root + path or "/" for path in paths[len(answers) :][:IN_FLIGHT_MAX]]
            try:
                answers += await self._answers(ask, link, part)
            except _LOST:
                continue
            except KazooException as problem:
                raise StoreError(f"ZooKeeper refused a read: {problem!r}") from problem
        return answers

    async def _answers(
        self, ask: Callable[[KazooLink, str], KazooReply], link: KazooLink, paths: Iterable[str]
    ) -> list[Any]:
        """Return the answers to requests that are sent together; None for a missing znode."""
        replies = [ask(link, path) for path in paths]
        answers = []
        for reply in replies:
            try:
                answers.append(await reply.get())
            except NoNodeError:
                answers.append(None)
        return answers

    # -- writes

    def create(self, path: str, content: bytes | None = None, flags: int = 0) -> Create:
        return Create(self._root + path, content, self._acl(path), flags)

    def set_data(self, path: str, content: bytes, version: int = -1) -> SetData:
        return SetData(self._root + path, content, version)

    def delete(self, path: str, version: int = -1) -> Delete:
        return Delete(self._root + path, version)

    def check(self, path: str, version: int = -1) -> CheckVersion:
        """Without a version, that the znode exists."""
        return CheckVersion(self._root + path, version)

    def _acl(self, path: str) -> list[Any]:
        """Return the ZooKeeper access list for a new znode, as Kafka chooses it.

        With zookeeper.set.acl only brokers write, and only they read znodes that have secrets.
        """
        if not self._config.set_acl or path in _OPEN_PATHS:
            return [*OPEN_ACL_UNSAFE]
        if path.startswith(_SENSITIVE_PATHS):
            return [*CREATOR_ALL_ACL]
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    async def multi(self, operations: Sequence[ZnodeOperation]) -> list[Any]:
        """Makes all of `operations` in one transaction, or none.

        Returns a result for each: the path for a creation, the stat for set_data.  Raises
        TransactionRefused; OutcomeUnknown; StoreError.
        """
        async with self._slots:
            link = await self.connected()
            try:
                results: list[Any] = await link.multi(operations).get()
            except _LOST as problem:
                raise OutcomeUnknown(
                    "the connection to ZooKeeper was lost during a write"
                ) from problem
            except AuthFailedError as problem:
                raise StoreError("ZooKeeper rejects this broker's credentials") from problem
            except KazooException as problem:
                raise StoreError(f"ZooKeeper refused a write: {problem!r}") from problem
        for at, result in enumerate(results):
            if isinstance(result, NoAuthError | InvalidACLError):
                path = operations[at].path
                raise StoreError(f"ZooKeeper does not let this broker write {path}: {result!r}")
            if isinstance(result, Exception) and not isinstance(
                result, RolledBackError | RuntimeInconsistency
            ):
                raise TransactionRefused(at, result)
        return results

    async def was_made(self, operations: Sequence[ZnodeOperation]) -> bool:
        """Return whether ZooKeeper has made `operations`, whose reply was lost.

        It made all or none, so one operation decides: a write if its content and version are there
        (other brokers do not write the same), else a deletion if the znode is gone.
        """
        for operation in operations:
            if getattr(operation, "data", None) is None or operation.path.endswith("_"):
                continue
            znode = await self.get(operation.path[len(self._root) :])
            version = 0 if isinstance(operation, Create) else operation.version + 1
            return znode is not None and (znode[0], znode[1].version) == (operation.data, version)
        deletions = [operation for operation in operations if isinstance(operation, Delete)]
        return bool(deletions) and await self.exists(deletions[-1].path[len(self._root) :]) is None

    async def make_root(self) -> None:
        """Create the chroot and its parents if they do not exist."""
        parts = self._root.split("/")[1:]
        for depth in range(1, len(parts) + 1):
            path = "/" + "/".join(parts[:depth])
            await self._make(Create(path, None, self._acl(path), 0))

    async def make_path(self, path: str) -> None:
        """Create a znode and its parents if they do not exist."""
        parent, _, name = path.rpartition("/")
        if not name or await self.exists(path) is not None:
            return
        await self.make_path(parent)
        await self.make(path)

    async def make(self, path: str, content: bytes | None = None) -> bool:
        """Create a znode whose parent exists; False if the znode exists already."""
        return await self._make(self.create(path, content))

    async def _make(self, creation: Create) -> bool:
        """Creates a znode; returns False if it exists.  Raises StoreError.

        After a lost reply it tries again.  If the first attempt did create the znode, the result is
        then False.
        """
        while True:
            try:
                await self.multi([creation])
            except TransactionRefused as refused:
                if isinstance(refused.reason, NodeExistsError):
                    return False
                path, reason = creation.path, refused.reason
                raise StoreError(f"ZooKeeper refused to create {path}: {reason!r}") from refused
            except OutcomeUnknown:
                continue
            return True
