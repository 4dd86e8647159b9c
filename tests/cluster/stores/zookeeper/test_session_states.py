"""ZooKeeperSession: its states, reads, writes and access rights.

On a ZooKeeper in memory, by trio's clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
import trio
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.stores.contract import (
    StoreError,
)
from kwire.cluster.stores.zookeeper import session as session_module
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.cluster.stores.zookeeper.session import (
    EPHEMERAL,
    IN_FLIGHT_MAX,
    SEQUENTIAL,
    OutcomeUnknown,
    SessionState,
    TransactionRefused,
    ZooKeeperSession,
)
from tests.cluster.stores.zookeeper.memory import Answering, Ensemble, MemoryLink
from tests.cluster.stores.zookeeper.stores import (
    MEMORY,
)

PLAIN = ZooKeeperConfig(MEMORY, 30_000, 4_000)


class ReportingSession:
    """A session with the states and paths that it reported."""

    def __init__(self, config: ZooKeeperConfig) -> None:
        self.states: list[SessionState] = []
        self.paths: list[str] = []
        self.session = ZooKeeperSession(config, self.states.append, self.paths.append)


@asynccontextmanager
async def a_session(config: ZooKeeperConfig = PLAIN) -> AsyncIterator[ReportingSession]:
    async with trio.open_nursery() as nursery:
        heard = ReportingSession(config)
        nursery.start_soon(heard.session.run)
        await heard.session.connected()
        yield heard
        heard.session.close()


def link_of(session: ZooKeeperSession) -> MemoryLink:
    return cast("MemoryLink", session._link)


# -- states


async def test_session_reports_each_state_once(ensemble: Ensemble) -> None:
    async with a_session() as heard:
        session, first = heard.session, heard.session.id
        link = link_of(session)
        link.suspend()
        assert session.state is SessionState.SUSPENDED
        link.suspend()
        link.resume()
        assert (session.id, session.connects) == (first, 2)
        ensemble.expire(link)
        await session.connected()
        assert session.id != first
        assert session.ids == {first, session.id}
        assert session.connects == 3
    assert heard.states == [
        SessionState.UP,
        SessionState.SUSPENDED,
        SessionState.UP,
        SessionState.NONE,
        SessionState.UP,
        SessionState.CLOSED,
    ]
    assert not ensemble.links, "its session is ended"


async def test_reconnection_in_another_session_is_reported_as_a_loss_first(
    ensemble: Ensemble,
) -> None:
    async with a_session() as heard:
        link = link_of(heard.session)
        link.suspend()
        link.session_id += 70
        link.resume()
        link.session_id -= 70
        assert heard.states == [
            SessionState.UP,
            SessionState.SUSPENDED,
            SessionState.NONE,
            SessionState.UP,
        ]
        assert heard.session.id == link.session_id + 70


async def test_events_of_an_earlier_link_or_a_closed_session_are_ignored(
    ensemble: Ensemble,
) -> None:
    async with a_session() as heard:
        session, link = heard.session, link_of(heard.session)
        hear = cast("Callable[[MemoryLink, str, int], None]", session._on_link_state)
        other = MemoryLink(ensemble, PLAIN, hear, session._on_link_znode)
        other.session_id = 99
        for say in (other.suspend, other.resume):
            say()
        assert (session.id, session.ids) == (link.session_id, {link.session_id})
        assert heard.states == [SessionState.UP]
        session.close()
        link.resume()
        link.hear_znode("/a")
        await wait_all_tasks_blocked()
        assert heard.states == [SessionState.UP, SessionState.CLOSED]
        assert not heard.paths
        with pytest.raises(StoreError, match="the session in ZooKeeper is closed"):
            await session.get("/")


async def test_session_is_lost_when_it_has_expired_by_the_clock(
    ensemble: Ensemble, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next session begins, and requests on the old link fail."""
    monkeypatch.setattr(
        session_module, "time", SimpleNamespace(monotonic=lambda: trio.current_time())
    )
    async with a_session() as heard:
        session, link = heard.session, link_of(heard.session)
        failed: list[bool] = []
        monkeypatch.setattr(link, "fail_outstanding", lambda: failed.append(True))
        began_at = trio.current_time()
        link.expiry_s = began_at + 6
        await trio.sleep(3)
        link.suspend()
        await trio.sleep(2.5)
        link.expiry_s += 1  # it was heard of meanwhile
        await trio.sleep(1)
        assert session.state is SessionState.SUSPENDED
        await session.connected()
        assert trio.current_time() == began_at + 7
        assert heard.states == [
            SessionState.UP,
            SessionState.SUSPENDED,
            SessionState.NONE,
            SessionState.UP,
        ]
        assert link_of(session) is not link
        assert failed == [True]
        await wait_all_tasks_blocked()
        assert [*ensemble.links.values()] == [link_of(session)], "the old one is closed"
        # While there is a connection no clock ends the session.
        link_of(session).expiry_s = began_at
        await trio.sleep(100)
        assert len(heard.states) == 4


async def test_link_that_gave_up_is_replaced_after_a_second(
    ensemble: Ensemble, autojump_clock: MockClock
) -> None:
    async with a_session() as heard:
        link = link_of(heard.session)
        link.has_ended = True
        began_at = trio.current_time()
        link.suspend()
        await heard.session.connected()
        assert link_of(heard.session) is not link
        assert trio.current_time() == began_at + 1


async def test_waiting_for_a_connection_ends_at_the_connection_timeout(
    ensemble: Ensemble, autojump_clock: MockClock
) -> None:
    async with a_session() as heard:
        link_of(heard.session).suspend()
        began_at = trio.current_time()
        with pytest.raises(
            StoreError,
            match=r"ZooKeeper at memory:2181 was not reached within zookeeper\.connection\.timeout"
            r"\.ms, 4000 ms",
        ):
            await heard.session.get("/")
        assert trio.current_time() == began_at + 4


async def test_waiting_for_a_connection_ends_when_it_is_back(ensemble: Ensemble) -> None:
    async with a_session() as heard, trio.open_nursery() as nursery:
        ensemble.put("/a", b"1")
        link_of(heard.session).suspend()
        found: list[bytes] = []

        async def ask() -> None:
            answer = await heard.session.get("/a")
            assert answer is not None
            found.append(answer[0])

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        assert not found
        link_of(heard.session).resume()
        await wait_all_tasks_blocked()
        assert found == [b"1"]


# -- paths


async def test_paths_are_relative_to_the_chroot(ensemble: Ensemble) -> None:
    async with a_session(replace(PLAIN, connect=f"{MEMORY}/a/b")) as heard:
        session = heard.session
        await session.make_root()
        await session.make_root()
        assert set(ensemble.znodes) == {"", "/a", "/a/b"}
        await session.make_path("/c/d")
        assert await session.children("/", watch=True) == ["c"]
        assert await session.get("/c/d", watch=True) is not None
        assert await session.exists("/none", watch=True) is None
        ensemble.put("/a/b/c/d", b"1")
        ensemble.put("/a/b/none", b"")
        await wait_all_tasks_blocked()
        assert heard.paths == ["/c/d", "/none", "/"]
        assert await session.make("/c/e", b"2")
        assert not await session.make("/c/e", b"3")
        assert ensemble.znode("/a/b/c/e").content == b"2"
        assert await session.children("/c") == ["d", "e"]
        await session.multi(
            [
                session.check("/c/d"),
                session.set_data("/c/d", b"4"),
                session.delete("/c/e", 0),
                session.create("/c/f"),
            ]
        )
        assert ensemble.znode("/a/b/c").children == {"d", "f"}


async def test_session_without_chroot_creates_no_root(ensemble: Ensemble) -> None:
    async with a_session() as heard:
        await heard.session.make_root()
        assert not ensemble.writes
        await heard.session.make_path("/a")
        assert len(ensemble.writes) == 1
        ensemble.put("/a", b"")
        ensemble.put("/a/b", b"")
        await heard.session.make_path("/a/b")
        assert await heard.session.exists("/a/b") is not None
        await wait_all_tasks_blocked()
        assert not heard.paths, "nothing is watched for that nobody asked to be"


async def test_many_znodes_are_read_in_order_with_bounded_requests_in_flight(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_session() as heard:
        link = link_of(heard.session)
        asking = Answering(monkeypatch, link, "get")
        paths = [f"/{number}" for number in range(IN_FLIGHT_MAX + 2)]
        for path in paths[1:]:
            ensemble.put(path, path.encode())
        asking.next(error=ConnectionLoss())  # the first of them are asked once more
        found = await heard.session.get_all(paths)
        assert [None if each is None else each[0] for each in found] == [
            None,
            *(path.encode() for path in paths[1:]),
        ]
        assert asking.asked == [*paths[:IN_FLIGHT_MAX], *paths[:IN_FLIGHT_MAX], *paths[-2:]]


@pytest.mark.parametrize("lost", [ConnectionLoss, SessionExpiredError, ConnectionClosedError])
async def test_read_is_repeated_after_a_lost_connection(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch, lost: type[Exception]
) -> None:
    async with a_session() as heard:
        asking = Answering(monkeypatch, link_of(heard.session), "children")
        asking.next(error=lost())
        ensemble.put("/b", b"")
        ensemble.put("/a", b"")
        assert await heard.session.children("/") == ["a", "b"]
        assert await heard.session.children("/none") == []


async def test_refused_read_is_a_store_error(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_session() as heard:
        Answering(monkeypatch, link_of(heard.session), "exists").next(error=NoAuthError())
        with pytest.raises(StoreError, match="ZooKeeper refused a read: NoAuthError"):
            await heard.session.exists("/a")


# -- writes


def test_operations_have_path_content_flags_and_rights() -> None:
    session = ZooKeeperSession(
        replace(PLAIN, connect=f"{MEMORY}/r"), lambda state: None, lambda path: None
    )
    assert session.create("/a") == Create("/r/a", None, OPEN_ACL_UNSAFE, 0)
    assert session.create("/a", b"1", EPHEMERAL) == Create("/r/a", b"1", OPEN_ACL_UNSAFE, 1)
    assert session.create("/a", b"", SEQUENTIAL).flags == 2
    assert session.set_data("/a", b"1") == SetData("/r/a", b"1", -1)
    assert session.set_data("/a", b"1", 7) == SetData("/r/a", b"1", 7)
    assert session.delete("/a") == Delete("/r/a", -1)
    assert session.delete("/a", 7) == Delete("/r/a", 7)
    assert session.check("/a") == CheckVersion("/r/a", -1)
    assert session.check("/a", 7) == CheckVersion("/r/a", 7)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/consumers", [*OPEN_ACL_UNSAFE]),
        ("/consumers/a", [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]),
        ("/brokers/ids/1", [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]),
        ("/config/users/bob", [*CREATOR_ALL_ACL]),
        ("/config/brokers", [*CREATOR_ALL_ACL]),
        ("/delegation_token/tokens/t", [*CREATOR_ALL_ACL]),
    ],
)
def test_set_acl_lets_only_the_creator_change_a_znode(path: str, allowed: list[object]) -> None:
    config = replace(PLAIN, connect=f"{MEMORY}/r", set_acl=True)
    session = ZooKeeperSession(config, lambda state: None, lambda path: None)
    assert session.create(path).acl == allowed
    plain = ZooKeeperSession(replace(PLAIN), lambda state: None, lambda path: None)
    assert plain.create(path).acl == [*OPEN_ACL_UNSAFE]


async def test_set_acl_protects_the_chroot(ensemble: Ensemble) -> None:
    config = replace(PLAIN, connect=f"{MEMORY}/a/b", set_acl=True)
    async with a_session(config) as heard:
        await heard.session.make_root()
        made = [operation for operations in ensemble.writes for operation in operations]
        allowed = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        assert made == [Create(path, None, allowed, 0) for path in ("/a", "/a/b")]


async def test_refused_transaction_names_the_operation_that_failed(
    ensemble: Ensemble,
) -> None:
    async with a_session() as heard:
        session = heard.session
        ensemble.put("/a", b"")
        with pytest.raises(TransactionRefused, match="operation 1: BadVersionError") as refused:
            await session.multi(
                [session.check("/a", 0), session.check("/a", 7), session.delete("/a")]
            )
        assert refused.value.at == 1
        assert isinstance(refused.value.reason, BadVersionError)
        assert "/a" in ensemble.znodes
        stat = (await session.multi([session.set_data("/a", b"1"), session.check("/a")]))[0]
        assert stat.version == 1


@pytest.mark.parametrize("reason", [NoAuthError, InvalidACLError])
async def test_write_without_rights_raises_an_error_with_the_path(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch, reason: type[Exception]
) -> None:
    async with a_session() as heard:
        session = heard.session
        answers = [RolledBackError(), reason(), RuntimeInconsistency()]
        Answering(monkeypatch, link_of(session), "multi").next(answers)
        with pytest.raises(StoreError, match=rf"not let this broker write /b: {reason.__name__}"):
            await session.multi([session.create("/a"), session.create("/b"), session.create("/c")])


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (ConnectionLoss(), OutcomeUnknown, "the connection to ZooKeeper was lost during a write"),
        (AuthFailedError(), StoreError, "ZooKeeper rejects this broker's credentials"),
        (KazooException("odd"), StoreError, "ZooKeeper refused a write: .*odd"),
    ],
)
async def test_failed_transaction_raises_an_error_with_its_cause(
    ensemble: Ensemble,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    raised: type[Exception],
    message: str,
) -> None:
    async with a_session() as heard:
        Answering(monkeypatch, link_of(heard.session), "multi").next(error=error)
        with pytest.raises(raised, match=message) as caught:
            await heard.session.multi([heard.session.create("/a")])
        assert type(caught.value) is raised


async def test_creation_is_repeated_until_its_outcome_is_known(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_session() as heard:
        session, writing = heard.session, Answering(monkeypatch, link_of(heard.session), "multi")
        writing.next(error=ConnectionLoss())
        assert await session.make("/a", b"1")
        assert ensemble.znode("/a").content == b"1"
        link_of(session).loses_next_reply = True
        assert not await session.make("/b"), "by the second try it is there"
        writing.next([NodeExistsError()])
        assert not await session.make("/c")
        with pytest.raises(StoreError, match="ZooKeeper refused to create /d/e: NoNodeError"):
            await session.make("/d/e")


# -- whether a write of which no reply came was made


async def test_lost_write_is_recognized_by_content_and_version(ensemble: Ensemble) -> None:
    async with a_session(replace(PLAIN, connect=f"{MEMORY}/r")) as heard:
        session = heard.session
        await session.make_root()
        created, written = session.create("/a", b"1"), session.set_data("/a", b"2", 0)
        assert not await session.was_made([created])
        ensemble.put("/r/a", b"1")
        assert await session.was_made([created])
        assert not await session.was_made([session.create("/a", b"other")])
        assert not await session.was_made([written])
        ensemble.put("/r/a", b"2")
        assert await session.was_made([written])
        assert await session.was_made([session.check("/none"), written])
        assert not await session.was_made([created])
        assert not await session.was_made([session.set_data("/a", b"2", 1)])
        # Nobody knows the name of a sequential znode: another operation tells.
        sequential = session.create("/change_", b"", SEQUENTIAL)
        assert await session.was_made([sequential, written])
        assert not await session.was_made([sequential])


async def test_lost_deletion_is_recognized_by_the_missing_znode(ensemble: Ensemble) -> None:
    async with a_session(replace(PLAIN, connect=f"{MEMORY}/r")) as heard:
        session = heard.session
        await session.make_root()
        ensemble.put("/r/b", b"")
        assert await session.was_made([session.check("/b"), session.delete("/a")])
        assert not await session.was_made([session.delete("/a"), session.delete("/b")])
        assert not await session.was_made([session.check("/b")])
