"""A session in ZooKeeper: its states, what is asked and written in it, and who may read that.

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
    Refused,
    Session,
    State,
)
from tests.cluster.stores.zookeeper.memory import Answering, Ensemble, MemoryLink
from tests.cluster.stores.zookeeper.stores import (
    MEMORY,
)

PLAIN = ZooKeeperConfig(MEMORY, 30_000, 4_000)


class Heard:
    """A session with what it told."""

    def __init__(self, config: ZooKeeperConfig) -> None:
        self.states: list[State] = []
        self.paths: list[str] = []
        self.session = Session(config, self.states.append, self.paths.append)


@asynccontextmanager
async def a_session(config: ZooKeeperConfig = PLAIN) -> AsyncIterator[Heard]:
    async with trio.open_nursery() as nursery:
        heard = Heard(config)
        nursery.start_soon(heard.session.run)
        await heard.session.connected()
        yield heard
        heard.session.close()


def link_of(session: Session) -> MemoryLink:
    return cast("MemoryLink", session._link)


# -- states


async def test_session_that_comes_and_goes_tells_each_state_once(ensemble: Ensemble) -> None:
    async with a_session() as heard:
        session, first = heard.session, heard.session.id
        link = link_of(session)
        link.suspend()
        assert session.state is State.SUSPENDED
        link.suspend()
        link.resume()
        assert (session.id, session.connects) == (first, 2)
        ensemble.expire(link)
        await session.connected()
        assert session.id != first
        assert session.ids == {first, session.id}
        assert session.connects == 3
    assert heard.states == [
        State.UP, State.SUSPENDED, State.UP, State.NONE, State.UP, State.CLOSED,
    ]  # fmt: skip
    assert not ensemble.links, "its session is ended"


async def test_connection_that_is_back_in_another_session_is_told_as_a_loss_first(
    ensemble: Ensemble,
) -> None:
    async with a_session() as heard:
        link = link_of(heard.session)
        link.suspend()
        link.session_id += 70
        link.resume()
        link.session_id -= 70
        assert heard.states == [State.UP, State.SUSPENDED, State.NONE, State.UP]
        assert heard.session.id == link.session_id + 70


async def test_what_an_earlier_link_or_a_closed_session_says_is_not_heard(
    ensemble: Ensemble,
) -> None:
    async with a_session() as heard:
        session, link = heard.session, link_of(heard.session)
        hear = cast("Callable[[MemoryLink, str, int], None]", session._hear)
        other = MemoryLink(ensemble, PLAIN, hear, session._hear_znode)
        other.session_id = 99
        for say in (other.suspend, other.resume):
            say()
        assert (session.id, session.ids) == (link.session_id, {link.session_id})
        assert heard.states == [State.UP]
        session.close()
        link.resume()
        link.hear_znode("/a")
        await wait_all_tasks_blocked()
        assert heard.states == [State.UP, State.CLOSED]
        assert not heard.paths
        with pytest.raises(StoreError, match="the session in ZooKeeper is closed"):
            await session.get("/")


async def test_session_is_lost_when_its_time_is_over_by_the_clock(
    ensemble: Ensemble, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one begins, and what the old link said before has no reply any more."""
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
        assert session.state is State.SUSPENDED
        await session.connected()
        assert trio.current_time() == began_at + 7
        assert heard.states == [State.UP, State.SUSPENDED, State.NONE, State.UP]
        assert link_of(session) is not link
        assert failed == [True]
        await wait_all_tasks_blocked()
        assert [*ensemble.links.values()] == [link_of(session)], "the old one is closed"
        # While there is a connection no clock ends the session.
        link_of(session).expiry_s = began_at
        await trio.sleep(100)
        assert len(heard.states) == 4


async def test_link_that_will_not_connect_again_is_replaced_after_a_second(
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


async def test_who_waits_for_a_connection_waits_no_longer_than_its_timeout(
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


async def test_who_waits_for_a_connection_goes_on_when_it_is_back(ensemble: Ensemble) -> None:
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


async def test_paths_are_those_below_the_chroot(ensemble: Ensemble) -> None:
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


async def test_without_a_chroot_nothing_is_made_for_it(ensemble: Ensemble) -> None:
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


async def test_many_znodes_are_asked_for_in_their_order_and_few_at_a_time(
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
async def test_question_whose_connection_goes_is_asked_again(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch, lost: type[Exception]
) -> None:
    async with a_session() as heard:
        asking = Answering(monkeypatch, link_of(heard.session), "children")
        asking.next(error=lost())
        ensemble.put("/b", b"")
        ensemble.put("/a", b"")
        assert await heard.session.children("/") == ["a", "b"]
        assert await heard.session.children("/none") == []


async def test_question_that_zookeeper_refuses_is_an_error(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_session() as heard:
        Answering(monkeypatch, link_of(heard.session), "exists").next(error=NoAuthError())
        with pytest.raises(StoreError, match="ZooKeeper refused a question: NoAuthError"):
            await heard.session.exists("/a")


# -- writes


def test_operations_say_what_is_to_be_made() -> None:
    session = Session(replace(PLAIN, connect=f"{MEMORY}/r"), lambda state: None, lambda path: None)
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
def test_with_set_acl_who_created_a_znode_may_change_it(path: str, allowed: list[object]) -> None:
    config = replace(PLAIN, connect=f"{MEMORY}/r", set_acl=True)
    session = Session(config, lambda state: None, lambda path: None)
    assert session.create(path).acl == allowed
    plain = Session(replace(PLAIN), lambda state: None, lambda path: None)
    assert plain.create(path).acl == [*OPEN_ACL_UNSAFE]


async def test_with_set_acl_the_chroot_is_its_creators(ensemble: Ensemble) -> None:
    config = replace(PLAIN, connect=f"{MEMORY}/a/b", set_acl=True)
    async with a_session(config) as heard:
        await heard.session.make_root()
        made = [operation for operations in ensemble.writes for operation in operations]
        allowed = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        assert made == [Create(path, None, allowed, 0) for path in ("/a", "/a/b")]


async def test_write_with_one_operation_that_cannot_be_made_is_refused_by_its_place(
    ensemble: Ensemble,
) -> None:
    async with a_session() as heard:
        session = heard.session
        ensemble.put("/a", b"")
        with pytest.raises(Refused, match="operation 1: BadVersionError") as refused:
            await session.multi(
                [session.check("/a", 0), session.check("/a", 7), session.delete("/a")]
            )
        assert refused.value.at == 1
        assert isinstance(refused.value.reason, BadVersionError)
        assert "/a" in ensemble.znodes
        stat = (await session.multi([session.set_data("/a", b"1"), session.check("/a")]))[0]
        assert stat.version == 1


@pytest.mark.parametrize("reason", [NoAuthError, InvalidACLError])
async def test_write_that_this_broker_has_no_right_to_names_the_path(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch, reason: type[Exception]
) -> None:
    async with a_session() as heard:
        session = heard.session
        answers = [RolledBackError(), reason(), RuntimeInconsistency()]
        Answering(monkeypatch, link_of(session), "multi").next(answers)
        with pytest.raises(StoreError, match=rf"not let this broker write /b: {reason.__name__}"):
            await session.multi([session.create("/a"), session.create("/b"), session.create("/c")])


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (ConnectionLoss(), OutcomeUnknown, "the connection to ZooKeeper went during a write"),
        (AuthFailedError(), StoreError, "does not take this broker's credentials"),
        (KazooException("odd"), StoreError, "ZooKeeper refused a write: .*odd"),
    ],
)
async def test_write_that_fails_as_a_whole_says_how(
    ensemble: Ensemble,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    raised: type[Exception],
    said: str,
) -> None:
    async with a_session() as heard:
        Answering(monkeypatch, link_of(heard.session), "multi").next(error=error)
        with pytest.raises(raised, match=said) as caught:
            await heard.session.multi([heard.session.create("/a")])
        assert type(caught.value) is raised


async def test_creation_is_tried_until_its_outcome_is_known(
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
        with pytest.raises(StoreError, match="ZooKeeper refused /d/e: NoNodeError"):
            await session.make("/d/e")


# -- whether a write of which no reply came was made


async def test_write_is_known_by_the_content_and_version_of_a_znode(ensemble: Ensemble) -> None:
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


async def test_write_without_contents_is_known_by_what_is_gone(ensemble: Ensemble) -> None:
    async with a_session(replace(PLAIN, connect=f"{MEMORY}/r")) as heard:
        session = heard.session
        await session.make_root()
        ensemble.put("/r/b", b"")
        assert await session.was_made([session.check("/b"), session.delete("/a")])
        assert not await session.was_made([session.delete("/a"), session.delete("/b")])
        assert not await session.was_made([session.check("/b")])
