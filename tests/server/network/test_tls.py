"""An SSL listener and clients inside TLS, on the test's own loop."""

from __future__ import annotations

import logging
import select
import socket
import ssl
import struct
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.primitives import Message
from kwire.requests.context import Context
from kwire.server.tls import handshake
from tests.inside import PATIENCE_S, running_broker, until
from tests.security.tls.authority import Authority, Certificate

API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000000 ffff")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@asynccontextmanager
async def tls_broker(
    directory: Path, authority: Authority, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Broker]:
    """One whose SSL listener is its only one."""
    own = authority.issue()
    defaults = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.write_pem(directory / "own.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem,
    }
    async with running_broker(directory / "data", {**defaults, **(settings or {})}) as broker:
        yield broker


def client_context(authority: Authority, own: Certificate | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem)
    if own is not None:
        with tempfile.NamedTemporaryFile() as file:
            context.load_cert_chain(own.write_pem(Path(file.name)))
    return context


OPENED: list[socket.socket] = []


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    yield
    for stream in OPENED:
        stream.close()
    OPENED.clear()


async def connect(broker: Broker) -> trio.SocketStream:
    """Closed at the end of the test."""
    address = ("127.0.0.1", broker.config.listeners[0].port)
    opened = await trio.to_thread.run_sync(socket.create_connection, address)
    OPENED.append(opened)
    return trio.SocketStream(trio.socket.from_stdlib_socket(opened))


async def connect_tls(broker: Broker, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    stream = trio.SSLStream(
        await connect(broker), context, server_hostname="localhost", https_compatible=True
    )
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError:  # trio sends no alert: the broker would wait for 30 s
        stream.transport_stream.socket.close()
        raise
    return stream


async def receive_exactly(stream: trio.SSLStream[trio.SocketStream], size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        assert more, "the broker closed the connection"
        data += bytes(more)
    return data


async def receive_frame(stream: trio.SSLStream[trio.SocketStream]) -> bytes:
    (size,) = struct.unpack(">i", await receive_exactly(stream, 4))
    return await receive_exactly(stream, size)


async def test_tls_client_gets_its_replies(tmp_path: Path, authority: Authority) -> None:
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker:
            stream = await connect_tls(broker, client_context(authority))
            for _ in range(3):
                await stream.send_all(API_VERSIONS)
                assert (await receive_frame(stream))[:4] == bytes(4)
            assert stream.version() == "TLSv1.3"


async def test_tls_requests_beyond_the_buffer_are_all_answered(
    tmp_path: Path, authority: Authority
) -> None:
    """More than fits in the connection's buffer: what OpenSSL holds back is no event of epoll."""
    count = 40_000
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker, trio.open_nursery() as nursery:
            stream = await connect_tls(broker, client_context(authority))
            nursery.start_soon(stream.send_all, API_VERSIONS * count)
            sizes = {len(await receive_frame(stream)) for _ in range(count)}
            assert len(sizes) == 1


async def test_tls_request_in_pieces_is_answered(tmp_path: Path, authority: Authority) -> None:
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker:
            stream = await connect_tls(broker, client_context(authority))
            for each in API_VERSIONS:
                await stream.send_all(bytes([each]))
            await receive_frame(stream)


async def test_large_tls_request_is_answered_without_further_bytes(
    tmp_path: Path, authority: Authority
) -> None:
    """1 MB in one frame; nothing comes behind it that could wake the broker again."""
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker:
            stream = await connect_tls(broker, client_context(authority))
            topics = [MetadataRequestTopic(name=f"{number:0100d}") for number in range(10_000)]
            body = MetadataRequest(topics=topics, allow_auto_topic_creation=False).encode(4)
            header = RequestHeader(request_api_key=3, request_api_version=4, correlation_id=7)
            frame = header.encode(1) + body
            await stream.send_all(struct.pack(">i", len(frame)) + frame)
            assert (await receive_frame(stream))[:4] == struct.pack(">i", 7)


async def test_tls_client_that_does_not_read_gets_all_bytes_once(
    tmp_path: Path, authority: Authority
) -> None:
    """The encrypted form of what there is no room for goes out whole, and once."""
    count = 4_000
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker, trio.open_nursery() as nursery:
            raw = await connect(broker)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
            context = client_context(authority)
            stream = trio.SSLStream(raw, context, server_hostname="localhost")
            await stream.do_handshake()
            nursery.start_soon(stream.send_all, API_VERSIONS * count)
            await trio.sleep(0.05)
            frames = {await receive_frame(stream) for _ in range(count)}
            assert len(frames) == 1


async def test_close_notify_of_the_client_ends_the_connection(
    tmp_path: Path, authority: Authority
) -> None:
    """close_notify alone, with the socket open: the connection ends, and nothing spins."""
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker:
            raw = await connect(broker)
            stream = trio.SSLStream(raw, client_context(authority), server_hostname="localhost")
            await stream.do_handshake()
            await stream.send_all(API_VERSIONS)
            await receive_frame(stream)
            await stream.unwrap()
            assert await raw.receive_some(1) == b""


async def test_principal_is_the_name_of_the_client_certificate(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(duke)$/$1/U,RULE:^CN=(dora).*$/$1/",
    }
    caplog.set_level(logging.INFO, "kwire.network.tls")
    seen: list[str] = []
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority, settings) as broker:

            class Gate:
                def admit(self, context: Context, frame: memoryview) -> None:
                    seen.append(context.principal)

                def parked(self, context: Context) -> None:
                    """Nothing to note."""

                def throttle_ms(self, context: Context, response: Message | None) -> int:
                    return 0

                def answered(self, context: Context, size_bytes: int) -> None:
                    """Nothing to note."""

            broker.gate = Gate()
            for name in ("duke", "dora"):
                stream = await connect_tls(broker, client_context(authority, authority.issue(name)))
                await stream.send_all(API_VERSIONS)
                await receive_frame(stream)
            nobody = client_context(authority, authority.issue("nobody"))
            stream = await connect_tls(broker, nobody)
            assert await stream.receive_some(1) == b""
    assert seen == ["User:DUKE", "User:dora"]
    assert "No rules apply to CN=nobody" in caplog.text


def knock(broker: Broker, context: ssl.SSLContext) -> None:
    """By `ssl`'s own sockets, which tell the broker what they do not like."""
    address = ("127.0.0.1", broker.config.listeners[0].port)
    with (
        socket.create_connection(address) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as client,
    ):
        client.recv(1)


def other_protocol(authority: Authority) -> ssl.SSLContext:
    context = client_context(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.mark.parametrize("case", ["authority", "certificate", "protocol", "plain"])
async def test_failed_handshake_is_logged_once(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    settings = {"ssl.client.auth": "required", "ssl.enabled.protocols": "TLSv1.3"}
    caplog.set_level(logging.INFO)
    context, words = {
        "authority": (client_context(Authority()), " alert "),
        "certificate": (client_context(authority), "peer did not return a certificate"),
        "protocol": (other_protocol(authority), "unsupported protocol"),
        "plain": (None, "wrong version number|packet length too long"),
    }[case]
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority, settings) as broker:
            if context is None:
                plain = await connect(broker)
                await plain.send_all(API_VERSIONS)
                while await plain.receive_some():
                    """An alert comes first."""
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await trio.to_thread.run_sync(knock, broker, context)
            await until(lambda: "SSL handshake failed" in caplog.text)
    failed = [each for each in caplog.records if "SSL handshake failed" in each.getMessage()]
    assert len(failed) == 1
    assert failed[0].levelno == logging.INFO
    assert any(each in failed[0].getMessage() for each in words.split("|")), failed[0].getMessage()
    assert not [each for each in caplog.records if each.levelno > logging.INFO]


async def test_stalled_handshake_is_closed_after_the_time_limit(
    tmp_path: Path,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "TIMEOUT_S", 0.2)
    caplog.set_level(logging.INFO)
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker:
            stream = await connect(broker)
            await stream.send_all(b"\x16\x03\x01\x02\x00\x01")
            assert await stream.receive_some(1) == b""
    assert "SSL handshake failed: it was not done after" in caplog.text


async def test_client_is_served_beside_many_half_open_handshakes(
    tmp_path: Path, authority: Authority
) -> None:
    """They have sent a hello, were answered, and say no more."""
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker:
            context = client_context(authority)
            hello = first_words(context)
            crowd = [await connect(broker) for _ in range(100)]
            for each in crowd:
                await each.send_all(hello)
            stream = await connect_tls(broker, context)
            await stream.send_all(API_VERSIONS)
            await receive_frame(stream)


async def test_client_is_served_behind_many_simultaneous_hellos(
    tmp_path: Path, authority: Authority
) -> None:
    """They were admitted when they had said nothing; it is admitted, and served, before them."""
    count = 200
    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker:
            context, before = client_context(authority), living()
            hello = first_words(context)
            crowd = [await connect(broker) for _ in range(count)]
            await until(lambda: living() >= before + count)
            for each in OPENED:  # nobody has a turn in between
                each.send(hello)
            plain = await connect(broker)
            stream = trio.SSLStream(plain, context, server_hostname="localhost")
            await stream.do_handshake()
            assert len(readable(crowd)) < count // 2


def readable(streams: list[trio.SocketStream]) -> list[int]:
    """Those that have something; not by `select`, which knows no descriptors above 1023."""
    poll = select.poll()
    for each in streams:
        poll.register(each.socket.fileno(), select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(0)]


def living() -> int:
    """Tasks, of which each connection has one."""
    return trio.lowlevel.current_statistics().tasks_living


def first_words(context: ssl.SSLContext) -> bytes:
    hello = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
    return hello.read()


async def test_new_certificates_apply_to_new_connections(
    tmp_path: Path,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """New connections get them; those that are there go on; a broken file changes nothing."""
    monkeypatch.setattr("kwire.server.network.tls_listeners.LOOK_INTERVAL_S", 0.01)
    context = client_context(authority)

    async def serial_number(broker: Broker) -> str:
        stream = await connect_tls(broker, context)
        return str(stream.getpeercert()["serialNumber"])

    def taken_over() -> None:
        """The file is never seen half written."""
        (tmp_path / "new.pem").rename(tmp_path / "own.pem")

    with trio.fail_after(PATIENCE_S):
        async with tls_broker(tmp_path, authority) as broker:
            old = await connect_tls(broker, context)
            before = await serial_number(broker)
            (tmp_path / "new.pem").write_text("nothing")
            taken_over()
            await trio.sleep(0.1)
            assert await serial_number(broker) == before
            authority.issue("somebody-else").write_pem(tmp_path / "new.pem")
            taken_over()
            await trio.sleep(0.1)
            assert await serial_number(broker) == before
            authority.issue().write_pem(tmp_path / "new.pem")
            taken_over()
            while await serial_number(broker) == before:
                """A look at the file is due soon."""
            await old.send_all(API_VERSIONS)
            await receive_frame(old)
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert len(told) == len(set(told)), "each is told once"
