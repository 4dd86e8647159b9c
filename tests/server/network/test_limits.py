"""How many may connect, from where, and how many at once; as Apache Kafka 4.3.1 lets them.

It closes at once who is over the limit of an address, before anything is asked, and lets wait who
comes to a full listener.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.server.network import limits as limits_module
from kwire.server.network import listener
from kwire.server.network.connection import Connection
from kwire.server.network.limits import ConnectionLimits, canonical_address
from kwire.server.network.listener import BACKLOG, backlog_of
from kwire.settings import ConfigError, ConfigResourceType, load
from kwire.testing import BrokerProcess
from tests.inside import RawClient, running_broker

PATIENCE_S = 240.0
TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,EXTRA://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
}
needs_ipv6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")


async def connect(broker: Broker, host: str = "127.0.0.1", at: int = 0) -> RawClient:
    stream = await trio.open_tcp_stream(host, broker.config.listeners[at].port)
    return RawClient.over(stream)


async def is_served(client: RawClient) -> bool:
    """Whether it is answered; False when it is closed instead."""
    with trio.fail_after(PATIENCE_S):
        try:
            await client.send(ApiVersionsRequest(), 0)
        except trio.BrokenResourceError:
            return False
        return await client.receive_frame() is not None


async def wait_until(freed: Callable[[], Awaitable[object]], *clients: RawClient) -> None:
    """The clients are served after `freed`, and not before."""
    answered: list[RawClient] = []

    async def ask(client: RawClient) -> None:
        assert await is_served(client)
        answered.append(client)

    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(ask, client)
        await trio.sleep(0.02)
        assert not answered
        await freed()


async def is_alive(client: RawClient) -> bool:
    try:
        return await is_served(client)
    except trio.ClosedResourceError:
        return False


async def survivors(clients: list[RawClient], most: int) -> int:
    """How many are left, as soon as they are no more than `most`."""
    while True:
        alive = sum([await is_alive(each) for each in clients])
        if alive <= most:
            return alive
        await trio.sleep(0.05)


async def alter(admin: RawClient, name: str = "", **configs: str | None) -> ErrorCode:
    """Set or, by None, delete dynamic configs of all brokers, or of the one that is named."""
    changes = [
        AlterableConfig(each.replace("_", "."), 1 if value is None else 0, value)
        for each, value in configs.items()
    ]
    resource = AlterConfigsResource(ConfigResourceType.BROKER, name, changes)
    request = IncrementalAlterConfigsRequest([resource])
    reply = await admin.ask(request, 0, IncrementalAlterConfigsResponse)
    return ErrorCode(reply.responses[0].error_code)


@needs_ipv6
@pytest.mark.parametrize("everywhere", ["", "[::]"])
async def test_ipv4_client_of_an_ipv6_listener_counts_by_its_ipv4_address(
    tmp_path: Path, everywhere: str
) -> None:
    settings = {"listeners": f"PLAINTEXT://{everywhere}:0", "max.connections.per.ip": "2"}
    settings["advertised.listeners"] = "PLAINTEXT://localhost:9092"
    async with running_broker(tmp_path, settings) as broker:
        for host in ("127.0.0.1", "::1"):
            clients = [await connect(broker, host) for _ in range(4)]
            assert [await is_served(each) for each in clients] == [True, True, False, False]


async def test_override_limits_only_its_address(tmp_path: Path) -> None:
    settings = {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "127.0.0.2:3"}
    async with running_broker(tmp_path, settings | TWO_LISTENERS) as broker:
        for local, allowed in (("127.0.0.1", 1), ("127.0.0.2", 3)):
            clients = []
            for number in range(allowed + 1):
                port = broker.config.listeners[number % 2].port  # one count for all listeners
                stream = await trio.open_tcp_stream("127.0.0.1", port, local_address=local)
                clients.append(RawClient.over(stream))
            served = [await is_served(each) for each in clients]
            assert served == [True] * allowed + [False], local


async def test_limit_of_0_with_overrides_admits_only_named_addresses(tmp_path: Path) -> None:
    settings = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.2:1"}
    async with running_broker(tmp_path, settings) as broker:
        assert not await is_served(await connect(broker))


async def test_lowered_limit_of_addresses_closes_no_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        admin, other = await connect(broker), await connect(broker)
        assert await is_served(other)
        assert await alter(admin, max_connections_per_ip="1") == ErrorCode.NONE
        assert await is_served(other)
        assert not await is_served(await connect(broker))
        await alter(admin, max_connections_per_ip_overrides="127.0.0.1:3")
        allowed = await connect(broker)
        assert await is_served(allowed)
        assert not await is_served(await connect(broker))
        await alter(admin, max_connections_per_ip=None, max_connections_per_ip_overrides=None)
        assert await is_served(await connect(broker))
        zero = await alter(admin, max_connections_per_ip="0")
        assert zero == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("127.0.0.1", "Error parsing configuration property .* begin 0, end -1, length 9"),
        ("127.0.0.1:x", 'For input string: "x"'),
        ("127.0.0.1:", 'For input string: ""'),
        ("127.0.0.1:99999999999", 'For input string: "99999999999"'),
        (",127.0.0.1:9", "Error parsing configuration property .* begin 0, end -1, length 0"),
        ("[::1]:7", r"contains invalid addresses : \[::1\]"),
    ],
)
def test_invalid_overrides_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load(overrides={"max.connections.per.ip.overrides": text})


def test_overrides_are_parsed_in_each_valid_form() -> None:
    written = " 127.0.0.1 : 5 ,::1:7,127.0.0.1:6,0:0:0:0:0:0:0:2:8,"
    limits = ConnectionLimits(load(overrides={"max.connections.per.ip.overrides": written}))
    assert limits._overrides == {
        "127.0.0.1": 6,
        "0:0:0:0:0:0:0:1": 7,
        "0:0:0:0:0:0:0:2": 8,
    }


def test_client_addresses_are_written_as_java_writes_them() -> None:
    """And told so: DescribeGroups of Apache Kafka says /0:0:0:0:0:0:0:1 of a member at ::1."""
    given = ("10.0.0.1", "::ffff:10.0.0.1", "::1", "fe80::1%2", "2001:db8::ffff:a00:1")
    assert [canonical_address(each) for each in given] == [
        "10.0.0.1",
        "10.0.0.1",
        "0:0:0:0:0:0:0:1",
        "fe80:0:0:0:0:0:0:1",
        "2001:db8:0:0:0:ffff:a00:1",
    ]


async def test_override_with_a_host_name_limits_its_addresses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that is none is told, and keeps the others from nothing."""
    names = "no.such.host.invalid:5,localhost:1"
    limits = ConnectionLimits(load(overrides={"max.connections.per.ip.overrides": names}))
    limits.add("PLAINTEXT", "127.0.0.1")
    assert limits.limit_reached("127.0.0.1") is None
    await limits.resolve_names()
    assert limits.limit_reached("127.0.0.1") == 1
    assert [each.getMessage() for each in caplog.records if "no.such.host" in each.getMessage()]


async def test_every_full_listener_accepts_when_there_is_room(tmp_path: Path) -> None:
    """Each replaced the event of the others: all but the last could wait for ever."""
    settings = TWO_LISTENERS | {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0,C://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
        "inter.broker.listener.name": "C",
        "max.connections": "2",
    }
    async with running_broker(tmp_path, settings) as broker:
        held = [await connect(broker) for _ in range(2)]
        assert [await is_served(each) for each in held] == [True, True]
        first, second = await connect(broker, at=0), await connect(broker, at=1)

        async def close_all() -> None:
            for each in held:
                await each.stream.aclose()

        await wait_until(close_all, first, second)


async def test_inter_broker_listener_accepts_above_max_connections(tmp_path: Path) -> None:
    """It may go over `max.connections`, and then others are closed, the longest idle first."""
    settings = TWO_LISTENERS | {"inter.broker.listener.name": "EXTRA", "max.connections": "2"}
    async with running_broker(tmp_path, settings) as broker:
        clients = [await connect(broker) for _ in range(2)]
        assert [await is_served(each) for each in clients] == [True, True]
        assert await is_served(await connect(broker, at=1))
        assert await survivors(clients, 1) == 1


@pytest.mark.slow
async def test_lowered_max_connections_closes_excess_connections(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        admin = await connect(broker)
        clients = [await connect(broker) for _ in range(4)]
        assert all([await is_served(each) for each in clients])
        assert await alter(admin, max_connections="3") == ErrorCode.NONE
        assert await survivors([admin, *clients], 3) == 3
        [survivor, *_] = [each for each in clients if await is_alive(each)]
        await wait_until(partial(alter, survivor, max_connections=None), await connect(broker))


async def test_listener_has_its_own_max_connections(tmp_path: Path) -> None:
    settings = TWO_LISTENERS | {"listener.name.extra.max.connections": "1"}
    async with running_broker(tmp_path, settings) as broker:
        first = await connect(broker, at=1)
        assert await is_served(first)
        second = await connect(broker, at=1)
        assert await is_served(await connect(broker, at=0))
        await wait_until(first.stream.aclose, second)


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
def test_listener_limit_must_be_positive(name: str) -> None:
    for value in ("0", "x", "-1"):
        with pytest.raises(ConfigError, match=f"Invalid {name} {value}"):
            load(overrides={f"listener.name.extra.{name}": value})


def test_limits_count_exactly_the_open_connections(rng: random.Random) -> None:
    """Come and go in any order: the limits bind by who is there."""
    settings = {
        "listeners": "A://:1,B://:2",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
        "max.connections": "9",
        "listener.name.b.max.connections": "5",
        "max.connections.per.ip": "4",
    }
    limits = ConnectionLimits(load(overrides=settings))
    there: list[tuple[str, str]] = []
    for _ in range(500):
        if there and rng.random() < 0.5:
            limits.remove(*there.pop(rng.randrange(len(there))))
        else:
            there.append((rng.choice("AB"), rng.choice(["10.0.0.1", "10.0.0.2", "10.0.0.3"])))
            limits.add(*there[-1])
        of_b = sum(listener == "B" for listener, _ in there)
        assert limits.has_room("B") == (of_b < 5 and len(there) < 9)
        assert limits.has_room("A"), "the one between brokers"
        assert limits.excess() == max(0, len(there) - 9)
        for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
            is_full = sum(address == host for _, address in there) >= 4
            assert limits.limit_reached(host) == (4 if is_full else None)


def test_new_connections_keep_to_the_creation_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds' worth of them may come at once."""
    now_s = 0.0
    monkeypatch.setattr(limits_module, "time", SimpleNamespace(monotonic=lambda: now_s))
    limits = ConnectionLimits(load(overrides={"max.connection.creation.rate": "2"}))
    came = 0
    for tenth in range(300):
        now_s = tenth / 10
        while limits.has_room("PLAINTEXT"):
            limits.note_new("PLAINTEXT")
            came += 1
        assert came <= 2 * (now_s + 10) + 20
    assert came == 3 * 20


def limited(
    monkeypatch: pytest.MonkeyPatch, **settings: str
) -> tuple[ConnectionLimits, list[float]]:
    """With two listeners, of which A is for brokers; and the time, which the test sets."""
    now_s = [1000.0]
    monkeypatch.setattr(limits_module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    given = {
        "listeners": "A://:1,B://:2",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    return ConnectionLimits(load(overrides=given)), now_s


def test_creation_rates_of_listener_and_broker_both_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, now_s = limited(
        monkeypatch,
        listener__name__b__max__connection__creation__rate="1",
        max__connection__creation__rate="2",
    )
    assert limits.has_room("B")
    assert limits.has_room("A")
    for number in range(10):
        assert limits.has_room("B"), number
        limits.note_new("B")
    assert not limits.has_room("B")
    for number in range(50):
        assert limits.has_room("A"), number
        limits.note_new("A")
    now_s[0] += 10
    assert not limits.has_room("B"), "ten seconds ago counts"
    now_s[0] += 0.001
    assert limits.has_room("B")
    assert limits.has_room("B", 9)
    assert not limits.has_room("B", 10), "those who wait count"


def test_waiting_connections_count_for_every_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, _ = limited(monkeypatch, listener__name__b__max__connections="3", max__connections="5")
    limits.add("B", "10.0.0.1")
    assert [limits.has_room("B", waiting) for waiting in (0, 1, 2)] == [True, True, False]
    limits.remove("B", "10.0.0.1")
    for _ in range(4):
        limits.add("A", "10.0.0.1")
    assert [limits.has_room("B", waiting) for waiting in (0, 1)] == [True, False]
    assert limits.has_room("A", 100), "the listener between brokers has no limit of its own"
    assert [limits.may_be_closed(each) for each in "AB"] == [False, True]


def test_connections_of_the_only_listener_may_be_closed_for_room() -> None:
    limits = ConnectionLimits(load(overrides={"max.connections": "1"}))
    assert limits.may_be_closed("PLAINTEXT")
    limits.add("PLAINTEXT", "10.0.0.1")
    assert not limits.has_room("PLAINTEXT")
    assert limits.excess() == 0
    limits.add("PLAINTEXT", "10.0.0.1")
    assert limits.excess() == 1


def test_creation_rate_counts_from_its_change_on(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, _ = limited(monkeypatch)
    for _ in range(100):
        assert limits.has_room("B")
        limits.note_new("B")
    slower = load(overrides={"max.connection.creation.rate": "1"})
    limits.follow(slower)
    for _ in range(10):
        assert limits.has_room("PLAINTEXT")
        limits.note_new("PLAINTEXT")
    assert not limits.has_room("PLAINTEXT")
    limits.follow(load())
    assert limits.has_room("PLAINTEXT")
    limits.follow(slower)
    assert limits.has_room("PLAINTEXT"), "what came while there was no rate is forgotten"


# -- the kernel's queue


@pytest.mark.slow
@pytest.mark.skipif(not listener.SOMAXCONN.exists(), reason="Linux tells how much it allows")
def test_backlog_holds_a_burst_of_a_thousand_connections(broker: BrokerProcess) -> None:
    """Without one of them having to knock again, which takes a second."""
    burst = min(1000, int(listener.SOMAXCONN.read_text()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, burst + 200), hard), hard))
    with ExitStack() as stack:
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            clients = [
                stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), 0.9))
                for _ in range(burst)
            ]
        finally:
            os.kill(broker.pid, signal.SIGCONT)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        frame = (10).to_bytes(4) + b"\0\x12\0\0\0\0\0\1\xff\xff"
        for client in clients:
            client.settimeout(PATIENCE_S)
            client.sendall(frame)
        assert all(len(client.recv(4)) == 4 for client in clients)


def test_backlog_setting_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    allowed = tmp_path / "somaxconn"
    allowed.write_text("128\n")
    monkeypatch.setattr(listener, "SOMAXCONN", allowed)
    assert backlog_of(load()) == BACKLOG
    assert backlog_of(load(overrides={"socket.listen.backlog.size": "50"})) == 50
    assert backlog_of(load(overrides={"socket.listen.backlog.size": "128"})) == 128
    assert not caplog.text
    assert backlog_of(load(overrides={"socket.listen.backlog.size": "500"})) == 500
    assert "the system allows 128: raise net.core.somaxconn" in caplog.text


async def test_receive_buffer_setting_is_used() -> None:
    with listener.open_listening_socket("127.0.0.1", 0, 5, 4096) as small:
        assert small.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 3 * 4096
    with listener.open_listening_socket("127.0.0.1", 0, 5) as usual, socket.socket() as plain:
        sizes = [each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in (usual, plain)]
        assert sizes[0] == sizes[1]


async def test_waiting_connections_are_accepted_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each pass of the scheduler kept a burst waiting."""
    begun: list[Connection] = []
    monkeypatch.setattr(Connection, "begin", lambda connection, *_: begun.append(connection))
    async with running_broker(tmp_path) as broker:
        with ExitStack() as stack:
            address = ("127.0.0.1", broker.config.listeners[0].port)
            for _ in range(20):  # the broker, on this thread, has no turn meanwhile
                stack.enter_context(socket.create_connection(address))
            assert not begun
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            assert len(begun) == 20
        for connection in begun:
            connection._transport.close()
