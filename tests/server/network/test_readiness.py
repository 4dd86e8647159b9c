"""Who has something to read is served, fairly, and cannot take the others along."""

from __future__ import annotations

import math
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.shared_work import SharedWork
from kwire.broker.timers import Timers
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.server.network.readiness import (
    Deadlines,
    Patience,
    ReadySockets,
    WaitingSockets,
    fire_due_before,
    ready_sockets,
)
from tests.inside import PATIENCE_S, RawClient, running_broker, until

needs_epoll = pytest.mark.skipif(not hasattr(select, "epoll"), reason="there is no epoll here")


def epoll_sockets(timers: Deadlines) -> ReadySockets:
    return ReadySockets(timers, SharedWork())


both_kinds = pytest.mark.parametrize(
    "kind", [pytest.param(epoll_sockets, marks=needs_epoll), WaitingSockets]
)
Kind = Callable[[Deadlines], ReadySockets | WaitingSockets]


class Peer:
    """One end of a connection that counts what its other end sends, until it is told enough."""

    def __init__(self, enough: int) -> None:
        self.far, self.near = socket.socketpair()
        self.near.setblocking(False)
        self.enough = enough
        self.received = b""
        self.failure: Exception | None = None
        self.not_sent: Exception | None = None
        self.held: list[bool] = []
        self.sent = 0
        self.has_room = True
        self.timely = False
        self.resumed: list[Exception | None] = []

    def readable(self, *, hold: bool) -> bool:
        self.held.append(hold)
        if self.failure is not None:
            raise self.failure
        self.received += self.near.recv(1)
        return len(self.received) < self.enough

    def send(self) -> bool:
        self.sent += 1
        if self.not_sent is not None:
            raise self.not_sent
        return self.has_room

    def is_timely(self) -> bool:
        return self.timely

    def resume(self, failure: Exception | None) -> None:
        self.resumed.append(failure)


class NoTimers:
    """Nothing is ever due."""

    next_ms = math.inf

    def now_ms(self) -> float:
        return 0.0

    def are_due(self) -> bool:
        return False

    def fire_due(self) -> None:
        raise AssertionError("nothing is due")


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    made = [Peer(enough) for enough in (3, 2, 1)]
    yield made
    for peer in made:
        with closing(peer.far), closing(peer.near):
            pass


@both_kinds
async def test_peer_is_served_until_it_returns_false(kind: Kind, peers: list[Peer]) -> None:
    ready = kind(NoTimers())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        async with trio.open_nursery() as serving:
            for peer in peers:
                serving.start_soon(ready.serve, peer.near.fileno(), peer)
                peer.far.send(b"abcd")
        assert [peer.received for peer in peers] == [b"abc", b"ab", b"a"]
        peers[0].enough = 4  # and again, for what was left
        await ready.serve(peers[0].near.fileno(), peers[0])
        assert peers[0].received == b"abcd"
        nursery.cancel_scope.cancel()


@both_kinds
async def test_error_of_a_peer_is_raised_in_its_task(kind: Kind, peers: list[Peer]) -> None:
    ready = kind(NoTimers())
    failing, other, _ = peers
    failing.failure = ConnectionResetError("gone")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        failing.far.send(b"a")
        with pytest.raises(ConnectionResetError):
            await ready.serve(failing.near.fileno(), failing)
        other.far.send(b"ab")
        await ready.serve(other.near.fileno(), other)
        nursery.cancel_scope.cancel()


@needs_epoll
async def test_send_error_of_a_peer_is_raised_in_its_task(peers: list[Peer]) -> None:
    ready = epoll_sockets(NoTimers())
    failing, other, _ = peers
    failing.not_sent = ConnectionResetError("gone")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        async with trio.open_nursery() as serving:
            serving.start_soon(ready.serve, other.near.fileno(), other)
            failing.far.send(b"a")
            other.far.send(b"ab")
            with pytest.raises(ConnectionResetError):
                await ready.serve(failing.near.fileno(), failing)
        assert other.received == b"ab"
        nursery.cancel_scope.cancel()


@needs_epoll
async def test_watched_peer_is_resumed_once_it_has_to_wait_or_fails(peers: list[Peer]) -> None:
    ready = epoll_sockets(NoTimers())
    _, failing, stuck = peers
    error = failing.failure = ConnectionResetError("gone")
    stuck.enough, stuck.has_room = 2, False
    for peer in peers:
        ready.watch(peer.near.fileno(), peer)
        peer.far.send(b"abcd")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [peer.resumed for peer in peers] == [[None], [error], [None]]
    assert [peer.received for peer in peers] == [b"abc", b"", b"a"]


@needs_epoll
async def test_dismissed_task_ends_and_its_peer_is_still_served(peers: list[Peer]) -> None:
    ready = epoll_sockets(NoTimers())
    peer, descriptor = peers[1], peers[1].near.fileno()
    waited: list[bool] = []

    async def wait() -> None:
        waited.append(await ready.serve(descriptor, peer))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        assert not ready.dismiss(descriptor)
        async with trio.open_nursery() as waiting:
            waiting.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert ready.dismiss(descriptor)
            assert not ready.dismiss(descriptor)
        assert waited == [False]
        for expected in (b"a", b"ab"):
            assert peer.resumed == []
            peer.far.send(b"ab"[len(peer.received) :][:1])
            await trio.testing.wait_all_tasks_blocked()
            assert peer.received == expected
        assert peer.resumed == [None]
        nursery.cancel_scope.cancel()


@needs_epoll
async def test_forgotten_peer_is_not_served(peers: list[Peer]) -> None:
    ready = epoll_sockets(NoTimers())
    peer, descriptor = peers[0], peers[0].near.fileno()
    ready.watch(descriptor, peer)
    assert ready.forget(descriptor)
    assert not ready.forget(descriptor)
    peer.far.send(b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (peer.received, peer.resumed) == (b"", [])


@both_kinds
async def test_cancelled_peer_is_not_served_again(kind: Kind, peers: list[Peer]) -> None:
    ready = kind(NoTimers())
    peer = peers[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        with trio.move_on_after(0.01):
            await ready.serve(peer.near.fileno(), peer)
        peer.far.send(b"abc")
        await trio.testing.wait_all_tasks_blocked()
        assert peer.received == b""
        await ready.serve(peer.near.fileno(), peer)
        assert peer.received == b"abc"
        nursery.cancel_scope.cancel()


@both_kinds
async def test_socket_closed_by_the_client_is_readable(kind: Kind, peers: list[Peer]) -> None:
    ready = kind(NoTimers())
    peer = peers[2]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        peer.far.close()
        peer.enough = 0
        await ready.serve(peer.near.fileno(), peer)
        assert peer.received == b""
        nursery.cancel_scope.cancel()


@both_kinds
async def test_broker_serves_with_and_without_epoll(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kwire.server.network.listener.ready_sockets", lambda timers, _: kind(timers)
    )
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        for _ in range(3):
            told = await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            assert told.error_code == ErrorCode.NONE


@needs_epoll
def test_trio_waits_for_sockets_without_epoll(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(ready_sockets(NoTimers(), SharedWork())) is ReadySockets
    monkeypatch.delattr("select.epoll")
    assert type(ready_sockets(NoTimers(), SharedWork())) is WaitingSockets


@both_kinds
async def test_client_without_pause_does_not_starve_others(kind: Kind, peers: list[Peer]) -> None:
    ready = kind(NoTimers())
    busy = peers[0]
    busy.enough = 1000
    busy.far.send(1000 * b"a")
    turns = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        nursery.start_soon(ready.serve, busy.near.fileno(), busy)
        with trio.fail_after(PATIENCE_S):
            while turns < 100:
                await trio.lowlevel.checkpoint()
                turns += 1
        nursery.cancel_scope.cancel()


@needs_epoll
async def test_replies_of_ready_peers_are_sent_after_all_have_read(peers: list[Peer]) -> None:
    ready = epoll_sockets(NoTimers())
    for peer in peers:
        peer.enough = 2
        peer.far.send(b"a")
    async with trio.open_nursery() as nursery:
        for peer in peers:
            nursery.start_soon(ready.serve, peer.near.fileno(), peer)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ready.run)
        await trio.testing.wait_all_tasks_blocked()
        assert [(peer.held, peer.sent) for peer in peers] == 3 * [([True], 1)]
        peers[1].far.send(b"b")
        await trio.testing.wait_all_tasks_blocked()
        assert (peers[1].held, peers[1].sent) == ([True, False], 1)
        nursery.cancel_scope.cancel()


async def test_connection_is_alone_after_many_passes_without_another() -> None:
    ready = ReadySockets(NoTimers(), SharedWork())
    busy, other = Peer(1000), Peer(1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        for peer in (busy, other):
            ready.watch(peer.near.fileno(), peer)

        async def request(peer: Peer) -> None:
            served = len(peer.received) + 1
            peer.far.send(b"a")
            while len(peer.received) < served:
                await trio.lowlevel.checkpoint()

        for _ in range(2):
            await request(other)
            assert not ready.is_one_alone
            for _ in range(32):
                await request(busy)
                assert not ready.is_one_alone
            await request(busy)
            assert ready.is_one_alone
        nursery.cancel_scope.cancel()
    for peer in (busy, other):
        with closing(peer.far), closing(peer.near):
            pass


class SharingPeer(Peer):
    """A peer whose requests add work that they share with others."""

    def __init__(self, work: SharedWork, log: list[str]) -> None:
        super().__init__(2)
        self._work, self._log = work, log

    def readable(self, *, hold: bool) -> bool:
        self._log.append("read")
        if self._work.is_open:
            self._work.add(lambda: self._log.append("share"))
        return super().readable(hold=hold)

    def send(self) -> bool:
        self._log.append("send")
        return super().send()


@needs_epoll
async def test_shared_work_is_done_between_the_requests_and_their_replies() -> None:
    """A request that is served alone shares nothing."""
    work, log = SharedWork(), list[str]()
    ready = ReadySockets(NoTimers(), work)
    both = [SharingPeer(work, log) for _ in range(2)]
    async with trio.open_nursery() as nursery:
        for peer in both:
            peer.far.send(b"a")
            nursery.start_soon(ready.serve, peer.near.fileno(), peer)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ready.run)
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["read", "read", "share", "share", "send", "send"]
        log.clear()
        both[0].far.send(b"b")
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["read"]
        nursery.cancel_scope.cancel()
    for peer in both:
        with closing(peer.far), closing(peer.near):
            pass


@needs_epoll
async def test_peer_with_unsent_bytes_continues_in_its_task(peers: list[Peer]) -> None:
    ready = epoll_sockets(NoTimers())
    stuck, other, _ = peers
    stuck.has_room = False
    for peer in (stuck, other):
        peer.far.send(b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.serve, other.near.fileno(), other)
        async with trio.open_nursery() as serving:
            serving.start_soon(ready.serve, stuck.near.fileno(), stuck)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ready.run)
        assert (stuck.received, stuck.sent) == (b"a", 1)
        assert (other.received, other.sent) == (b"a", 1)
        nursery.cancel_scope.cancel()


@both_kinds
async def test_due_timers_fire_before_requests_but_after_timely_ones(
    kind: Kind, peers: list[Peer], autojump_clock: trio.testing.MockClock
) -> None:
    """In one turn; the timers' own task does not run here."""
    timers = Timers()
    ready = kind(timers)
    usual, timely, _ = peers
    usual.enough = timely.enough = 1
    timely.timely = True
    seen: list[tuple[bytes, bytes]] = []
    timers.after(100, lambda: seen.append((usual.received, timely.received)))
    async with trio.open_nursery() as nursery:
        for peer in (timely, usual):
            nursery.start_soon(ready.serve, peer.near.fileno(), peer)
        await trio.testing.wait_all_tasks_blocked()
        autojump_clock.jump(0.2)
        for peer in (timely, usual):
            peer.far.send(b"a")
            if kind is WaitingSockets:  # each has a task of its own, in no order
                await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ready.run)
        while not usual.received:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert seen == [(b"", b"a")]


async def test_timer_due_now_fires_before_requests(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """And what is due in a millisecond does not."""
    fired: list[str] = []
    for late_ms, expected in ((0, ["due"]), (1, [])):
        timers, peer = Timers(), Peer(1)
        timers.after(100 + late_ms, partial(fired.append, "due"))
        autojump_clock.jump(0.1)
        fire_due_before(timers, peer)
        assert fired == expected
        fired.clear()
        with closing(peer.far), closing(peer.near):
            pass


class WatchedEpoll:
    """The kernel's, which is asked what there is, and never to wait: that is trio's to do."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.asked = 0

    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]:
        self.asked += 1
        assert timeout == 0
        assert 0 < maxevents <= 4096, "others have their turn"
        return self._epoll.poll(timeout, maxevents)

    def __getattr__(self, name: str) -> object:
        return getattr(self._epoll, name)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._epoll.close()


@needs_epoll
async def test_nothing_blocks_the_loop(
    peers: list[Peer], monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    timers = Timers()
    with monkeypatch.context() as patched:
        epoll = WatchedEpoll()
        patched.setattr("kwire.server.network.readiness.select.epoll", lambda: epoll)
        ready = epoll_sockets(timers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        for peer in peers:
            timers.after(100, lambda: None)
            await trio.sleep(0.2)
            peer.far.send(b"abc")
            await ready.serve(peer.near.fileno(), peer)
        nursery.cancel_scope.cancel()


@needs_epoll
async def test_polling_before_sleep_is_skipped_after_vain_polls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """32 times; after a look in vain one chance is passed over, then three."""
    peer, epoll = Peer(100), WatchedEpoll()
    with monkeypatch.context() as patched:
        patched.setattr("kwire.server.network.readiness.select.epoll", lambda: epoll)
        ready = epoll_sockets(NoTimers())
    looks = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ready.run)
        nursery.start_soon(ready.serve, peer.near.fileno(), peer)
        for _ in range(7):
            await trio.testing.wait_all_tasks_blocked()
            before = epoll.asked
            peer.far.send(b"a")
            await until(lambda: not ready_to_read(peer))
            await trio.testing.wait_all_tasks_blocked(0.001)
            looks.append(epoll.asked - before)
        nursery.cancel_scope.cancel()
    assert looks == [33, 1, 33, 1, 1, 1, 33]
    with closing(peer.far), closing(peer.near):
        pass


def ready_to_read(peer: Peer) -> bool:
    try:
        return bool(peer.near.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


@needs_epoll
async def test_timer_that_was_put_off_does_not_fire(
    peers: list[Peer], autojump_clock: trio.testing.MockClock
) -> None:
    timers, fired = Timers(), []
    ready = epoll_sockets(timers)
    timer = timers.after(100, lambda: fired.append("too soon"))
    timer.move(300)
    peer = peers[2]
    peer.far.send(b"a")
    async with trio.open_nursery() as nursery:
        autojump_clock.jump(0.2)
        nursery.start_soon(ready.run)
        await ready.serve(peer.near.fileno(), peer)
        nursery.cancel_scope.cancel()
    assert (fired, timers.next_ms) == ([], 300.0)


def test_vain_polls_double_the_skipped_polls() -> None:
    patience = Patience()
    tried = 0
    for _ in range(1000):
        if patience.is_worthwhile():
            tried += 1
            patience.learn(rewarded=False)
    assert 10 < tried < 30
    while not patience.is_worthwhile():
        pass
    patience.learn(rewarded=True)
    assert patience.is_worthwhile()
    assert patience.is_worthwhile()
