"""Calls of a peer to brokers that answer, hang, break the connection, move, or are no brokers."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.lowlevel
import trio.testing

from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
from kwire.cluster.peers.connection import PeerConnection, PeerTraffic
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peer import Peer, PeerLimits
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from kwire.codecs.messages.fetch import PartitionData as Fetched
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.settings import load
from kwire.settings.live import LiveSettings
from tests.cluster.peers.scripted import ReceivedRequest, scripted
from tests.inside import PATIENCE_S, port_of, running_broker

HEARTBEATS = ((int(ApiKey.HEARTBEAT), 0, 0),)


def at(port: int) -> Endpoint:
    return Endpoint("PLAINTEXT", "127.0.0.1", port)


def peer_at(port: int, limits: PeerLimits | None = None) -> Peer:
    return Peer(7, lambda: at(port), client_id="broker-1-fetcher-0", limits=limits)


async def alive(request: ReceivedRequest) -> bytes:
    return HeartbeatResponse(error_code=int.from_bytes(request.body[-1:])).encode(request.version)


def beat(number: int = 0) -> HeartbeatRequest:
    """A request whose last byte in version 0 is `number`."""
    return HeartbeatRequest(member_id=chr(number))


async def test_concurrent_calls_each_get_their_own_reply(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        peer = peer_at(port_of(broker))
        replies: dict[int, str] = {}

        async def ask(number: int) -> None:
            request = MetadataRequest(topics=[])
            reply = await peer.call(FindCoordinatorRequest() if number % 2 else request)
            replies[number] = type(reply).__name__

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ask, number)
        for number in range(50):
            expected = "FindCoordinatorResponse" if number % 2 else "MetadataResponse"
            assert replies[number] == expected
        assert peer.waiting == 0
        peer.close()


async def test_call_uses_the_highest_version_that_both_brokers_support() -> None:
    async with scripted(alive, served=((int(ApiKey.HEARTBEAT), 0, 3),)) as server:
        peer = peer_at(server.port)
        await peer.call(beat())
        await peer.call(beat(), version_max=1)
        with pytest.raises(PeerError, match=r"broker 7 at 127.0.0.1:.*: no version of FETCH"):
            await peer.call(FetchRequest())
        await peer.call(beat())
        assert [request.version for request in server.requests] == [3, 1, 3]
        assert {request.client_id for request in server.requests} == {"broker-1-fetcher-0"}
        assert server.connections == 1
        peer.close()


async def test_traffic_counts_connections_requests_and_bytes_also_of_closed_ones() -> None:
    traffic = PeerTraffic()
    async with scripted(alive, served=HEARTBEATS) as server:
        peer = Peer(7, lambda: at(server.port), client_id="c", traffic=traffic)
        for _ in range(2):
            await peer.call(beat())
            assert peer.is_connected
            peer.close()
            assert not peer.is_connected
    assert (traffic.opened, traffic.failed) == (2, 0)
    # Each connection asks for the versions twice: the scripted broker only knows ApiVersions 0.
    assert traffic.requests == len(server.requests) + 2 * 2
    assert traffic.bytes_out > 2 * 20
    assert traffic.bytes_in > 2 * 20
    with pytest.raises(PeerError):
        await peer.call(beat())
    assert (traffic.opened, traffic.failed) == (2, 1)


async def test_replies_of_any_size_are_read_whole() -> None:
    """One reply is larger than the receive buffer, and many small ones arrive in one read."""
    sizes = [0, 10, 65_530, 65_536, 1_000_000, 3, 200_000, 1]

    async def fetched(request: ReceivedRequest) -> bytes:
        size = int.from_bytes(request.body[4:8])  # max_wait_ms, behind the replica's id
        data = Fetched(records=bytes([size % 251]) * size)
        topics = [FetchableTopicResponse(topic="t", partitions=[data])]
        return FetchResponse(responses=topics).encode(request.version)

    async with scripted(fetched, served=((int(ApiKey.FETCH), 4, 4),)) as server:
        peer = peer_at(server.port)
        found: list[int] = []

        async def ask(size: int) -> None:
            reply = await peer.call(FetchRequest(max_wait_ms=size))
            records = bytes(reply.responses[0].partitions[0].records or b"")
            assert records == bytes([size % 251]) * size
            found.append(size)

        async with trio.open_nursery() as nursery:
            for size in sizes:
                nursery.start_soon(ask, size)
        assert sorted(found) == sorted(sizes)
        peer.close()


async def test_cancelled_call_does_not_take_the_replies_of_others() -> None:
    gate = trio.Event()

    async def slow(request: ReceivedRequest) -> bytes:
        await gate.wait()
        return await alive(request)

    async with scripted(slow, served=HEARTBEATS) as server:
        peer = peer_at(server.port)
        replies: dict[int, int] = {}

        async def ask(number: int) -> None:
            replies[number] = (await peer.call(beat(number))).error_code

        async with trio.open_nursery() as nursery:
            scopes = [trio.CancelScope() for _ in range(4)]

            async def ask_within(number: int) -> None:
                with scopes[number]:
                    await ask(number)

            for number in range(4):
                nursery.start_soon(ask_within, number)
                while peer.waiting <= number:
                    await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked(0.01)
            scopes[0].cancel()
            scopes[2].cancel()
            await trio.testing.wait_all_tasks_blocked(0.01)
            gate.set()
        assert replies == {1: 1, 3: 3}
        await ask(9)
        assert replies[9] == 9
        assert server.connections == 1
        peer.close()


async def test_call_times_out_and_reconnects_when_the_broker_hangs() -> None:
    async def hangs(request: ReceivedRequest) -> bytes:
        if server.connections == 1:
            await trio.sleep_forever()
        return await alive(request)

    async with scripted(hangs, served=HEARTBEATS) as server:
        peer = peer_at(server.port)
        errors: list[str] = []

        async def ask() -> None:
            with pytest.raises(PeerError) as caught:
                await peer.call(beat())
            errors.append(str(caught.value))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not server.requests:
                await trio.lowlevel.checkpoint()
            with pytest.raises(PeerError, match="no answer within 5 ms"):
                await peer.call(beat(), timeout_ms=5)
        assert errors == [f"broker 7 at 127.0.0.1:{server.port}: no answer within 5 ms"]
        assert (await peer.call(beat())).error_code == 0
        peer.close()


async def test_timed_out_request_is_not_sent_later() -> None:
    """It would arrive after later requests, so the connection is reset instead of closed."""
    ends: list[BaseException | None] = []
    over = trio.Event()

    async def hangs(stream: trio.SocketStream) -> None:
        try:
            while await stream.receive_some():
                pass
            ends.append(None)
        except trio.BrokenResourceError as error:
            ends.append(error.__cause__)
        over.set()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, hangs, 0)
        peer = peer_at(listeners[0].socket.getsockname()[1], PeerLimits(request_timeout_ms=5))
        with pytest.raises(PeerError, match="no answer in time"):
            await peer.call(beat())
        with trio.fail_after(PATIENCE_S):
            await over.wait()
        nursery.cancel_scope.cancel()
    assert isinstance(ends[0], ConnectionResetError)


async def test_broken_connection_fails_all_calls_and_is_reopened() -> None:
    async def breaks(request: ReceivedRequest) -> bytes | None:
        return None if server.connections == 1 else await alive(request)

    async with scripted(breaks, served=HEARTBEATS) as server:
        peer = peer_at(server.port)
        why = r"broker 7 at .*: (connection reset|the other broker closed)"
        with pytest.raises(PeerError, match=why):
            await peer.call(beat())
        assert (await peer.call(beat())).error_code == 0
        assert server.connections == 2
        peer.close()


async def test_reply_that_is_not_kafka_protocol_raises_peer_error() -> None:
    async def nonsense(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n")

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, nonsense, listeners)
        peer = peer_at(listeners[0].socket.getsockname()[1])
        with pytest.raises(PeerError, match="its reply is not valid Kafka protocol"):
            await peer.call(beat())
        nursery.cancel_scope.cancel()


async def test_reconnect_backoff_doubles_and_resets_after_a_connection(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Pauses are 50, 100, 200 ... ms up to one second; calls that wait together share a failure."""
    attempts: list[float] = []

    async def refuse(host: str, port: int) -> trio.SocketStream:
        attempts.append(trio.current_time())
        await trio.sleep(0.001)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(trio, "open_tcp_stream", refuse)
    peer = peer_at(1)
    for _ in range(8):
        with pytest.raises(PeerError, match="connection refused"):
            await peer.call(beat())
    pauses = [round(later - earlier, 2) for earlier, later in pairwise(attempts)]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]

    async def ask() -> None:
        with pytest.raises(PeerError, match="connection refused"):
            await peer.call(beat())

    before = len(attempts)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert len(attempts) == before + 1, "one try for all who waited for it"


async def test_call_beyond_the_limit_of_waiting_calls_is_refused() -> None:
    async def never(request: ReceivedRequest) -> bytes:
        await trio.sleep_forever()
        raise AssertionError

    async with scripted(never, served=HEARTBEATS) as server, trio.open_nursery() as nursery:
        peer = peer_at(server.port, PeerLimits(calls_max=3))
        for _ in range(3):
            nursery.start_soon(peer.call, beat())
        while peer.waiting < 3:
            await trio.lowlevel.checkpoint()
        with pytest.raises(PeerError, match="3 requests already wait for it"):
            await peer.call(beat())
        nursery.cancel_scope.cancel()


class Owner:
    """The part of a broker that peers use."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.image = ClusterImage("c")
        config = load(None, {"node.id": "1", **(settings or {})})
        self.peers = Peers(LiveSettings(config), lambda: self.image)


async def test_peers_follow_addresses_and_removals_in_the_image() -> None:
    async with (
        scripted(alive, served=HEARTBEATS) as first,
        scripted(alive, served=HEARTBEATS) as second,
    ):
        owner = Owner()
        peers = owner.peers
        peer = peers.peer(7, Role.FETCHER, 2)
        assert peers.peer(7, Role.FETCHER, 2) is peer
        assert peers.peer(7, Role.FETCHER) is not peer
        with pytest.raises(PeerError, match="broker 7: it is not a live broker"):
            await peer.call(beat())
        for server in (first, second):
            owner.image = owner.image.with_broker(BrokerImage(7, (at(server.port),)))
            await peer.call(beat())
            assert [request.client_id for request in server.requests] == ["broker-1-fetcher-2"]
        await peers.peer(7, Role.CONTROLLER).call(beat())
        await peers.peer(7, Role.TXN_MARKERS).call(beat())
        assert [request.client_id for request in second.requests][1:] == [
            "1",
            "broker-1-txn-marker-sender",
        ]
        peers.drop(7)
        assert peers.peer(7, Role.FETCHER, 2) is not peer
        peers.close()


def test_fetcher_peer_uses_replica_socket_timeout() -> None:
    owner = Owner({"replica.socket.timeout.ms": "1234", "socket.connection.setup.timeout.ms": "77"})
    limits = owner.peers._limits(Role.FETCHER)
    assert (limits.request_timeout_ms, limits.connect_timeout_ms) == (1234, 77)
    assert limits.receive_buffer_bytes == -1
    owner = Owner(
        {"replica.socket.receive.buffer.bytes": "99", "controller.socket.timeout.ms": "55"}
    )
    assert owner.peers._limits(Role.FETCHER).receive_buffer_bytes == 99
    assert owner.peers._limits(Role.CONTROLLER).request_timeout_ms == 55
    assert owner.peers._limits(Role.FORWARDING).request_timeout_ms == 30_000


async def test_connection_closed_by_the_other_broker_is_broken_while_a_call_waits() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = PeerConnection(ours, "broker 7", "c", PeerTraffic())
    with theirs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.call, HeartbeatRequest(), 0)
            await trio.testing.wait_all_tasks_blocked()
            before = connection.has_broken
            theirs.shutdown(socket.SHUT_WR)
            assert [before, connection.has_broken] == [False, True]
            nursery.cancel_scope.cancel()
    connection.fail("the test is over")


async def test_idle_connection_that_the_other_broker_closes_is_not_broken() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = PeerConnection(ours, "broker 7", "c", PeerTraffic())
    theirs.close()
    assert not connection.has_broken
    connection.fail("the test is over")
