"""One connection: the versions it chooses, and its errors about a broker that misbehaves."""

from __future__ import annotations

import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from kwire.client.cluster import parse_bootstrap
from kwire.client.connection import BrokerConnection
from kwire.client.errors import (
    BrokerUnreachable,
    Misuse,
    ProtocolError,
    RequestTimedOut,
    UnsupportedRequest,
)
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersion, ApiVersionsResponse
from kwire.codecs.messages.create_topics import CreateTopicsRequest
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.testing.hosting.ports import free_port

Script = Callable[[int, int, bytes], bytes | None]
"""(api key, version, correlation id) -> what follows the size, or None to close."""


class ScriptedBroker:
    """Answers each request by a function of the test; `requests` has the clients' requests."""

    def __init__(self, script: Script) -> None:
        self.requests: list[tuple[int, int]] = []
        self._script = script
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        with connection:
            while len(size := connection.recv(4, socket.MSG_WAITALL)) == 4:
                frame = connection.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
                api_key, version = struct.unpack_from(">hh", frame)
                self.requests.append((api_key, version))
                reply = self._script(api_key, version, frame[4:8])
                if reply is None:
                    return
                connection.sendall(struct.pack(">i", len(reply)) + reply)

    def close(self) -> None:
        with socket.socket() as knock:  # for a script that nobody has connected to
            knock.connect_ex(("127.0.0.1", self.port))
        self._thread.join(5)
        self._listening.close()


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], ScriptedBroker]]:
    brokers: list[ScriptedBroker] = []

    def start(script: Script) -> ScriptedBroker:
        brokers.append(ScriptedBroker(script))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


def connect(port: int, timeout_s: float = 5.0) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", port, client_id="test", timeout_s=timeout_s)


def versions(
    ranges: dict[str, tuple[int, int]], error: ErrorCode = ErrorCode.NONE
) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(api_key=ApiKey[name], min_version=low, max_version=high)
            for name, (low, high) in ranges.items()
        ],
    )


def test_connection_uses_the_api_versions_version_of_an_older_broker(
    scripted: Callable[[Script], ScriptedBroker],
) -> None:
    """It answers an unknown ApiVersions version in version 0 with the range (KIP-511)."""

    def script(api_key: int, version: int, correlation_id: bytes) -> bytes:
        ranges = {"API_VERSIONS": (0, 2), "METADATA": (0, 5)}
        if version > 2:
            return correlation_id + versions(ranges, ErrorCode.UNSUPPORTED_VERSION).encode(0)
        return correlation_id + versions(ranges).encode(version)

    broker = scripted(script)
    connection = connect(broker.port)
    assert broker.requests == [(ApiKey.API_VERSIONS, 5), (ApiKey.API_VERSIONS, 2)]
    assert connection.version_for(MetadataRequest()) == 5
    assert connection.version_for(MetadataRequest(), version_max=3) == 3
    with pytest.raises(UnsupportedRequest, match="CREATE_TOPICS"):
        connection.version_for(CreateTopicsRequest())
    connection.close()


@pytest.mark.parametrize(
    "reply",
    [
        b"\0\0\0\1",  # the correlation id and nothing after it
        b"\0\0\0\1\0\0\x7f\xff\xff\xff",  # an array of two billion
        b"\0\0\0\7\0\0\0\0\0\0",  # another request's correlation id
    ],
)
def test_connection_refuses_an_invalid_response(
    scripted: Callable[[Script], ScriptedBroker], reply: bytes
) -> None:
    broker = scripted(lambda *_: reply)
    with pytest.raises(ProtocolError, match="sent an invalid response"):
        connect(broker.port)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is it a Kafka listener"),
        (b"\x15\x03\x01\0\x02\x02\x46", "expects TLS: set security.protocol=SSL"),  # an alert
    ],
)
def test_connection_reports_a_port_of_another_protocol(answer: bytes, sentence: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(answer)
                connection.recv(1000)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(ProtocolError, match=sentence):
            connect(listening.getsockname()[1])
        thread.join()


def test_connection_reports_a_broker_that_closes(
    scripted: Callable[[Script], ScriptedBroker],
) -> None:
    broker = scripted(lambda *_: None)
    with pytest.raises(BrokerUnreachable, match=r"lost the connection to .*: closed by the broker"):
        connect(broker.port)


def test_connection_reports_a_broker_that_does_not_respond() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        pytest.raises(RequestTimedOut, match=r"did not respond in 0\.05 s"),
    ):
        connect(listening.getsockname()[1], timeout_s=0.05)


def test_interrupted_call_closes_the_connection(
    scripted: Callable[[Script], ScriptedBroker],
) -> None:
    me = threading.main_thread().ident
    assert me is not None

    def script(api_key: int, version: int, correlation_id: bytes) -> bytes | None:
        if api_key == ApiKey.API_VERSIONS:
            ranges = {"API_VERSIONS": (0, 4), "METADATA": (0, 5)}
            return correlation_id + versions(ranges).encode(version)
        signal.pthread_kill(me, signal.SIGINT)
        assert interrupted.wait(30)
        return None

    interrupted = threading.Event()
    connection = connect(scripted(script).port, timeout_s=30)
    try:
        with pytest.raises(KeyboardInterrupt):
            connection.call(MetadataRequest())
    finally:
        interrupted.set()
    assert connection.closed


def test_connection_reports_a_closed_port() -> None:
    port = free_port()
    with pytest.raises(
        BrokerUnreachable, match=f"cannot connect to 127.0.0.1:{port}: connection ref"
    ):
        connect(port)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("host", [("host", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_parse_bootstrap_returns_addresses(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:0", "a:65536", ":9092"])
def test_parse_bootstrap_refuses_invalid_addresses(text: str) -> None:
    with pytest.raises(Misuse):
        parse_bootstrap(text)
