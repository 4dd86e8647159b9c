"""A broker's session in ZooKeeper, one after another, as the store sees it.

A session that ZooKeeper calls expired, or that by this broker's clock must be, is lost: what was
ephemeral is gone or will be, and the next one begins.  A session whose connection is gone is
suspended meanwhile; requests wait for it.
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
from kwire.cluster.stores.zookeeper.link import Link, Reply, log

IN_FLIGHT_MAX = 128
"""Requests at a time.  kazoo wakes its thread by a byte each through a socket that does not block:
where that is full, it calls a request failed that it sends yet."""

EPHEMERAL = 1
SEQUENTIAL = 2
_OPEN_PATHS = ("/consumers",)
_SENSITIVE_PATHS = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""As in Apache Kafka: what every client may write, and what no client may read."""

Operation: TypeAlias = Any
"""What `multi` takes: one of kazoo's Create, SetData, Delete and CheckVersion, with the chroot."""

_LOST = (ConnectionLoss, SessionExpiredError, ConnectionClosedError)


class OutcomeUnknown(StoreError):
    """The connection went while a change was under way: it was made, or not."""


class Refused(Exception):
    """An operation of several could not be made, so none was: which, and why."""

    def __init__(self, at: int, reason: Exception) -> None:
        super().__init__(f"operation {at}: {reason!r}")
        self.at = at
        self.reason = reason


class State(enum.Enum):
    NONE = "none"
    """There is no session: none yet, or the last one is lost."""
    UP = "up"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class Session:
    """See the module.  `on_state` hears of each new state, `on_znode` of paths that changed.

    Both are called on the loop.  Paths are those below the chroot.
    """

    def __init__(
        self,
        config: ZooKeeperConfig,
        on_state: Callable[[State], None],
        on_znode: Callable[[str], None],
    ) -> None:
        self._config = config
        self._root = config.chroot
        self._on_state, self._on_znode = on_state, on_znode
        self._link: Link | None = None
        self._changed = trio.Event()
        self._slots = trio.Semaphore(IN_FLIGHT_MAX)
        self.state = State.NONE
        self.id = 0
        """Of this session; of the last one while there is none."""
        self.ids: set[int] = set()
        """Of all that this process has had: what they left behind is ours."""
        self.connects = 0
        """How often it was connected: watches that were left before are void."""

    async def run(self) -> None:
        """Keep a session, until `close` was called or this is cancelled."""
        async with trio.open_nursery() as nursery:
            try:
                self._open()
                while self.state is not State.CLOSED:
                    changed, remaining_s = self._changed, self._remaining_s()
                    if remaining_s <= 0:
                        log.warning("ZooKeeper was away for longer than the session's timeout")
                        nursery.start_soon(self._replace_link().close)
                        self._be(State.NONE)
                        continue
                    with trio.move_on_after(remaining_s):
                        await changed.wait()
                    if self._link is not None and self._link.has_ended:
                        await trio.sleep(1)  # refused, or something unheard-of: not in a loop
                        nursery.start_soon(self._replace_link().close)
            finally:
                self._be(State.CLOSED)
                if self._link is not None:
                    await self._link.close()

    def close(self) -> None:
        """Have `run` end the session and return."""
        self._be(State.CLOSED)

    # -- states

    def _open(self) -> None:
        self._link = Link(self._config, self._hear, self._hear_znode)
        self._link.open()

    def _replace_link(self) -> Link:
        link = self._link
        assert link is not None
        self._open()
        link.fail_outstanding()
        return link

    def _remaining_s(self) -> float:
        if self.state is not State.SUSPENDED or self._link is None:
            return float("inf")
        return self._link.expires_at() - time.monotonic()

    def _hear(self, link: Link, said: str, session_id: int) -> None:
        if link is not self._link or self.state is State.CLOSED:
            return
        if said == "CONNECTED":
            if self.state is State.SUSPENDED and session_id != self.id:
                self._be(State.NONE)
            self.id = session_id
            self.ids.add(session_id)
            self.connects += 1
            self._be(State.UP)
        elif said == "SUSPENDED" and self.state is State.UP:
            self._be(State.SUSPENDED)
        elif said == "LOST":
            self._be(State.NONE)

    def _be(self, state: State) -> None:
        before, self.state = self.state, state
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        if state is not before and before is not State.CLOSED:
            self._on_state(state)

    def _hear_znode(self, path: str) -> None:
        if self.state is not State.CLOSED:
            self._on_znode(path[len(self._root) :] or "/")

    async def connected(self) -> Link:
        """Once there is a connection.  Raises StoreError if it takes too long."""
        with trio.move_on_after(self._config.connection_timeout_ms / 1000):
            while self.state not in (State.UP, State.CLOSED):
                await self._changed.wait()
        if self.state is State.CLOSED:
            raise StoreError("the session in ZooKeeper is closed: the broker stops")
        if self.state is not State.UP or self._link is None:
            raise StoreError(
                f"ZooKeeper at {self._config.servers} was not reached within"
                f" zookeeper.connection.timeout.ms, {self._config.connection_timeout_ms} ms"
            )
        return self._link

    # -- reads: they are asked again when the connection was lost

    async def get(self, path: str, watch: bool = False) -> tuple[bytes, ZnodeStat] | None:
        """Content and stat, None if there is no such znode."""
        return (await self.get_all([path], watch))[0]

    async def get_all(
        self, paths: Sequence[str], watch: bool = False
    ) -> list[tuple[bytes, ZnodeStat] | None]:
        """Of each of them, several asked at a time."""
        found = await self._ask_all(paths, lambda link, path: link.get(path, watch))
        return [None if each is None else (each[0] or b"", each[1]) for each in found]

    async def children(self, path: str, watch: bool = False) -> list[str]:
        """Their names, sorted; none where there is no such znode."""
        return (await self.children_of_all([path], watch))[0]

    async def children_of_all(self, paths: Sequence[str], watch: bool = False) -> list[list[str]]:
        found = await self._ask_all(paths, lambda link, path: link.children(path, watch))
        return [sorted(each or ()) for each in found]

    async def exists(self, path: str, watch: bool = False) -> ZnodeStat | None:
        """Its stat; a watch is left also where it does not exist yet."""
        found = await self._ask_all([path], lambda link, path: link.exists(path, watch))
        stat: ZnodeStat | None = found[0]
        return stat

    async def _ask_all(self, paths: Sequence[str], ask: Callable[[Link, str], Reply]) -> list[Any]:
        found: list[Any] = []
        while len(found) < len(paths):
            link = await self.connected()
            part = [self._root + path or "/" for path in paths[len(found) :][:IN_FLIGHT_MAX]]
            try:
                found += await self._answers(ask, link, part)
            except _LOST:
                continue
            except KazooException as problem:
                raise StoreError(f"ZooKeeper refused a question: {problem!r}") from problem
        return found

    async def _answers(
        self, ask: Callable[[Link, str], Reply], link: Link, paths: Iterable[str]
    ) -> list[Any]:
        """Those to questions that are asked together."""
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
        if not self._config.set_acl or path in _OPEN_PATHS:
            return [*OPEN_ACL_UNSAFE]
        if path.startswith(_SENSITIVE_PATHS):
            return [*CREATOR_ALL_ACL]
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        """Make all or none.  The results: of a creation the path, of set_data the stat.

        Raises Refused; OutcomeUnknown; StoreError.
        """
        async with self._slots:
            link = await self.connected()
            try:
                results: list[Any] = await link.multi(operations).get()
            except _LOST as problem:
                raise OutcomeUnknown("the connection to ZooKeeper went during a write") from problem
            except AuthFailedError as problem:
                raise StoreError("ZooKeeper does not take this broker's credentials") from problem
            except KazooException as problem:
                raise StoreError(f"ZooKeeper refused a write: {problem!r}") from problem
        for at, result in enumerate(results):
            if isinstance(result, NoAuthError | InvalidACLError):
                path = operations[at].path
                raise StoreError(f"ZooKeeper does not let this broker write {path}: {result!r}")
            if isinstance(result, Exception) and not isinstance(
                result, RolledBackError | RuntimeInconsistency
            ):
                raise Refused(at, result)
        return results

    async def was_made(self, operations: Sequence[Operation]) -> bool:
        """Whether operations of which no reply came are what ZooKeeper has.

        All were made or none, so one tells: the content of a znode, for others do not write the
        same; else that one is gone.
        """
        for operation in operations:
            if getattr(operation, "data", None) is None or operation.path.endswith("_"):
                continue
            found = await self.get(operation.path[len(self._root) :])
            version = 0 if isinstance(operation, Create) else operation.version + 1
            return found is not None and (found[0], found[1].version) == (operation.data, version)
        gone = [each for each in operations if isinstance(each, Delete)]
        return bool(gone) and await self.exists(gone[-1].path[len(self._root) :]) is None

    async def make_root(self) -> None:
        """Create the chroot where it is not there yet."""
        parts = self._root.split("/")[1:]
        for depth in range(1, len(parts) + 1):
            path = "/" + "/".join(parts[:depth])
            await self._make(Create(path, None, self._acl(path), 0))

    async def make_path(self, path: str) -> None:
        """Create a znode, and those above it, where they are not there yet."""
        above, _, name = path.rpartition("/")
        if not name or await self.exists(path) is not None:
            return
        await self.make_path(above)
        await self.make(path)

    async def make(self, path: str, content: bytes | None = None) -> bool:
        """Create a znode; False if it is there.  Those above it must be."""
        return await self._make(self.create(path, content))

    async def _make(self, creation: Create) -> bool:
        while True:
            try:
                await self.multi([creation])
            except Refused as refused:
                if isinstance(refused.reason, NodeExistsError):
                    return False
                path, reason = creation.path, refused.reason
                raise StoreError(f"ZooKeeper refused {path}: {reason!r}") from refused
            except OutcomeUnknown:
                continue
            return True
