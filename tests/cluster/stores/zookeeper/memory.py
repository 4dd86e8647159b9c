"""A ZooKeeper in memory, which replaces kazoo and its server.

`Ensemble` holds the znodes and the sessions; `MemoryLink` has the interface of
`kwire.cluster.stores.zookeeper.link.KazooLink` and answers on the loop, so a test of a store takes
milliseconds and can end a session, lose a reply or stop a writer between two requests.  The
contract tests of the stores run on it and on a real ZooKeeper alike, which is what shows that it
behaves the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import trio
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.protocol.states import ZnodeStat

from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig

EPHEMERAL = 1
SEQUENTIAL = 2


@dataclass(slots=True)
class Znode:
    content: bytes
    czxid: int
    mzxid: int
    owner: int = 0
    version: int = 0
    cversion: int = 0
    children: set[str] = field(default_factory=set)
    ctime_ms: int = 0

    @property
    def stat(self) -> ZnodeStat:
        return ZnodeStat(
            self.czxid, self.mzxid, self.ctime_ms, 0, self.version, self.cversion, 0, self.owner,
            len(self.content), len(self.children), self.czxid,
        )  # fmt: skip


class Ensemble:
    """The znodes, their watches, and the live sessions."""

    def __init__(self) -> None:
        self.znodes = {"": Znode(b"", 0, 0)}
        """By path, without the slash of the root."""
        self.zxid = 0
        self._next_session = 1
        self.links: dict[int, MemoryLink] = {}
        """By session id."""
        self._data_watches: dict[str, set[MemoryLink]] = {}
        self._child_watches: dict[str, set[MemoryLink]] = {}
        self.before_write: Callable[[MemoryLink, Sequence[Any]], None] = lambda link, ops: None
        """Called before each write is made."""
        self.writes: list[list[Any]] = []
        """Each write that was made."""
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        """Clock for the creation times of znodes, in seconds."""

    def connect(self, link: MemoryLink) -> int:
        session_id, self._next_session = self._next_session, self._next_session + 1
        self.links[session_id] = link
        return session_id

    def end_session(self, session_id: int) -> None:
        """Remove a session and its ephemeral znodes."""
        del self.links[session_id]
        for path in [path for path, znode in self.znodes.items() if znode.owner == session_id]:
            self.zxid += 1
            self._remove(path)

    def expire(self, link: MemoryLink) -> None:
        """End the session of a client, and tell the client."""
        self.end_session(link.session_id)
        link.lost()

    def kill(self, link: MemoryLink) -> None:
        """Kill the process of a client; its session ends."""
        link.is_dead = True
        self.forget(link)
        self.end_session(link.session_id)

    def contents(self) -> dict[str, bytes]:
        """The content of each znode by path, without /controller, brokers and notifications."""
        return {
            path: znode.content
            for path, znode in self.znodes.items()
            if not path.startswith(("/controller", "/brokers/ids", "/config/changes/"))
            and "-changes/" not in path
            and not path.endswith("_changes")
        }

    def put(self, path: str, content: bytes) -> None:
        """Write a znode as somebody else; it is created where it is not there."""
        there = path in self.znodes
        done = self.multi(
            0, [SetData(path, content, -1) if there else Create(path, content, None, 0)]
        )
        assert not isinstance(done[0], Exception), f"{path}: {done[0]!r}"

    def put_next(self, path: str, content: bytes) -> str:
        """Create a sequential znode as somebody else; gives its path."""
        made: str = self.multi(0, [Create(path, content, None, SEQUENTIAL)])[0]
        return made

    def drop(self, path: str) -> None:
        """Delete a znode as somebody else."""
        done = self.multi(0, [Delete(path, -1)])
        assert not isinstance(done[0], Exception), f"{path}: {done[0]!r}"

    def watch(self, path: str, link: MemoryLink, *, children: bool) -> None:
        watches = self._child_watches if children else self._data_watches
        watches.setdefault(path, set()).add(link)

    def forget(self, link: MemoryLink) -> None:
        """Drop the watches of a client."""
        for watchers in (*self._data_watches.values(), *self._child_watches.values()):
            watchers.discard(link)

    def _data_changed(self, path: str) -> None:
        for link in self._data_watches.pop(path, set()):
            link.hear_znode(path or "/")

    def _children_changed(self, path: str) -> None:
        for link in self._child_watches.pop(path, set()):
            link.hear_znode(path or "/")

    def znode(self, path: str) -> Znode:
        """Raise NoNodeError."""
        znode = self.znodes.get(path.rstrip("/"))
        if znode is None:
            raise NoNodeError
        return znode

    # -- writes

    def multi(self, session_id: int, operations: Sequence[Any]) -> list[Any]:
        """Make all operations or none, as ZooKeeper does, and return their results."""
        before = {
            path: replace(znode, children={*znode.children}) for path, znode in self.znodes.items()
        }
        self.zxid += 1
        results: list[Any] = []
        for at, operation in enumerate(operations):
            try:
                results.append(self._make(session_id, operation))
            except (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError) as error:
                self.znodes = before
                after = len(operations) - at - 1
                return [
                    *[RolledBackError() for _ in range(at)],
                    error,
                    *[RuntimeInconsistency() for _ in range(after)],
                ]
        self.writes.append(list(operations))
        for operation, result in zip(operations, results, strict=True):
            self._tell(operation, result)
        return results

    def _tell(self, operation: Any, result: object) -> None:  # noqa: ANN401 - kazoo's
        """Fire the watches of one operation that was made."""
        if isinstance(operation, CheckVersion):
            return
        path = result if isinstance(result, str) else operation.path
        self._data_changed(path)
        if not isinstance(operation, SetData):
            self._children_changed(path)
            self._children_changed(path.rpartition("/")[0])

    def _make(self, session_id: int, operation: Any) -> Any:  # noqa: ANN401 - kazoo's
        if isinstance(operation, Create):
            return self._create(session_id, operation)
        znode = self.znode(operation.path)
        if operation.version not in (-1, znode.version):
            raise BadVersionError
        if isinstance(operation, SetData):
            znode.content, znode.mzxid = operation.data, self.zxid
            znode.version += 1
            return znode.stat
        if isinstance(operation, Delete):
            if znode.children:
                raise NotEmptyError
            self._unlink(operation.path)
            return True
        assert isinstance(operation, CheckVersion)
        return True

    def _create(self, session_id: int, creation: Create) -> str:
        above, _, name = creation.path.rpartition("/")
        parent = self.znode(above)
        if creation.flags & SEQUENTIAL:
            name += f"{parent.cversion:010d}"
        path = f"{above}/{name}"
        if path in self.znodes:
            raise NodeExistsError
        owner = session_id if creation.flags & EPHEMERAL else 0
        znode = Znode(creation.data or b"", self.zxid, self.zxid, owner, ctime_ms=self.now_ms())
        self.znodes[path] = znode
        parent.children.add(name)
        parent.cversion += 1
        return path

    def _unlink(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        del self.znodes[path]
        self.znodes[above].children.discard(name)
        self.znodes[above].cversion += 1

    def _remove(self, path: str) -> None:
        """Remove an ephemeral znode whose session is over."""
        self._unlink(path)
        self._data_changed(path)
        self._children_changed(path.rpartition("/")[0])


class MemoryReply:
    """An answer that is available at once."""

    def __init__(self, value: object = None, error: Exception | None = None) -> None:
        self._value, self._error = value, error

    async def get(self) -> Any:  # noqa: ANN401 - each request has its own
        await trio.lowlevel.checkpoint()
        if self._error is not None:
            raise self._error
        return self._value


class NoReply(MemoryReply):
    """The answer to a process that was killed."""

    async def get(self) -> Any:  # noqa: ANN401 - each request has its own
        await trio.sleep_forever()


class MemoryLink:
    """One client of an `Ensemble`, in the place of a `KazooLink`."""

    has_ended = False

    def __init__(
        self,
        ensemble: Ensemble,
        config: ZooKeeperConfig,
        on_state: Callable[[MemoryLink, str, int], None],
        on_znode: Callable[[str], None],
    ) -> None:
        self._ensemble, self._on_state, self._on_znode = ensemble, on_state, on_znode
        self._token = trio.lowlevel.current_trio_token()
        self.session_id = 0
        self.loses_next_reply = False
        """Whether the next write is made and its reply is lost."""
        self.is_dead = False
        """Whether its process was killed: nothing that it sends from now on arrives."""
        self.expiry_s = float("inf")
        """When its session must have expired, by the caller's clock."""

    def _later(self, function: Callable[..., object], *arguments: object) -> None:
        self._token.run_sync_soon(function, *arguments)

    def open(self) -> None:
        self.session_id = self._ensemble.connect(self)
        self._later(self._on_state, self, "CONNECTED", self.session_id)

    def lost(self) -> None:
        """Report the end of the session, and open the next one, as a client does."""
        self._ensemble.forget(self)
        self._on_state(self, "LOST", self.session_id)
        self.open()

    def hear_znode(self, path: str) -> None:
        self._later(self._on_znode, path)

    def suspend(self) -> None:
        """Report that the connection is lost, and drop its watches."""
        self._ensemble.forget(self)
        self._on_state(self, "SUSPENDED", self.session_id)

    def resume(self) -> None:
        """Report that the connection is back, in the same session."""
        self._on_state(self, "CONNECTED", self.session_id)

    def expires_at(self) -> float:
        return self.expiry_s

    def fail_outstanding(self) -> None:
        """Does nothing: no request ever waits for its answer."""

    def get(self, path: str, watch: bool) -> MemoryReply:
        znode = self._ensemble.znodes.get(path.rstrip("/"))
        if znode is None:
            return MemoryReply(error=NoNodeError())
        if watch:
            self._ensemble.watch(path.rstrip("/"), self, children=False)
        return MemoryReply((znode.content, znode.stat))

    def children(self, path: str, watch: bool) -> MemoryReply:
        znode = self._ensemble.znodes.get(path.rstrip("/"))
        if znode is None:
            return MemoryReply(error=NoNodeError())
        if watch:
            self._ensemble.watch(path.rstrip("/"), self, children=True)
        return MemoryReply([*znode.children])

    def exists(self, path: str, watch: bool) -> MemoryReply:
        """Sets a watch even if the znode does not exist."""
        znode = self._ensemble.znodes.get(path.rstrip("/"))
        if watch:
            self._ensemble.watch(path.rstrip("/"), self, children=False)
        return MemoryReply(None if znode is None else znode.stat)

    def multi(self, operations: Sequence[Any]) -> MemoryReply:
        session_id = self.session_id
        self._ensemble.before_write(self, operations)
        if self.is_dead:
            return NoReply()
        if session_id not in self._ensemble.links:
            return MemoryReply(error=ConnectionLoss())
        results = self._ensemble.multi(session_id, operations)
        if self.loses_next_reply:
            self.loses_next_reply = False
            return MemoryReply(error=ConnectionLoss())
        return MemoryReply(results)

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()
        self._ensemble.forget(self)
        if self.session_id in self._ensemble.links:
            self._ensemble.end_session(self.session_id)


class Answering:
    """Replaces answers of a link by given ones, each once; then the link's own answers follow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, link: MemoryLink, name: str) -> None:
        self._own = getattr(link, name)
        self._answers: list[MemoryReply] = []
        self.asked: list[Any] = []
        monkeypatch.setattr(link, name, self._answer)

    def next(self, value: object = None, error: Exception | None = None) -> None:
        self._answers.append(MemoryReply(value, error))

    def _answer(self, *arguments: Any) -> MemoryReply:  # noqa: ANN401 - of each request its own
        self.asked.append(arguments[0])
        if self._answers:
            return self._answers.pop(0)
        reply: MemoryReply = self._own(*arguments)
        return reply
