"""The gate that holds a connection's client to its quotas, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
import trio
import trio.testing

from kwire.cluster.metadata.entities import CLIENT_ID, USER, entity_key
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.api_versions import ApiVersionsResponse
from kwire.codecs.messages.sasl_handshake import SaslHandshakeResponse
from kwire.codecs.primitives import Frame, Message
from kwire.requests.context import CloseConnection, Context
from kwire.requests.gate import PassingGate
from kwire.security.quotas.enforced import ClientQuotas
from kwire.security.quotas.rates import Windows
from kwire.server.network.connection import Connection
from kwire.server.network.quota_gate import QuotaGate, rest

MS = 1_000_000
"""In nanoseconds."""


class FakeConnection:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.forgotten = 0
        self.replies: list[tuple[Frame, float]] = []

    def forget(self) -> None:
        self.forgotten += 1

    async def reply(self, frame: Frame) -> None:
        self.replies.append((frame, trio.current_time()))
        await trio.lowlevel.checkpoint()


class Behind(PassingGate):
    """A gate behind it, which has its client rest for as long as it is set to."""

    def __init__(self) -> None:
        super().__init__(None)
        self.admitted: list[bytes] = []
        self.parkings = 0
        self.rest_ms = 0

    def admit(self, context: Context, frame: memoryview) -> None:
        self.admitted.append(bytes(frame))

    def parked(self, context: Context) -> None:
        self.parkings += 1

    def throttle_ms(self, context: Context, response: Message | None) -> int:
        return self.rest_ms


class Gated:
    """The gate of a client whose user is `u`, on a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, quotas: dict[str, str]) -> None:
        self.now_ns = 0
        monkeypatch.setattr(
            "kwire.server.network.quota_gate.time",
            SimpleNamespace(perf_counter_ns=lambda: self.now_ns),
        )
        self.quotas = ClientQuotas(Windows(11, 1000), Windows(11, 1000), lambda: 0.0)
        entity = entity_key({USER: "u", CLIENT_ID: ""})
        self.quotas.follow(ClusterImage("c").with_all_configs([(entity, quotas)]))
        self.connection, self.behind = FakeConnection(), Behind()
        self.gate = QuotaGate(cast(Connection, self.connection), self.quotas, self.behind)

    def context(self, api_key: int, user: str = "u") -> Context:
        return Context("L", "127.0.0.1", "1-2-3", f"User:{user}", api_key, client_id=None)

    def ask(
        self,
        api_key: int,
        response: Message | None,
        *,
        size_bytes: int = 100,
        took_ms: int = 0,
        parked_after_ms: int | None = None,
        user: str = "u",
    ) -> int:
        """How long the client of one request must rest."""
        context = self.context(api_key, user)
        self.gate.admit(context, memoryview(bytes(size_bytes)))
        if parked_after_ms is not None:
            self.now_ns += parked_after_ms * MS
            self.gate.parked(context)
        self.now_ns += took_ms * MS
        return self.gate.throttle_ms(context, response)


def test_producer_quota_counts_only_bytes_of_produce(monkeypatch: pytest.MonkeyPatch) -> None:
    gated = Gated(monkeypatch, {"producer_byte_rate": "1000"})
    assert gated.ask(ApiKey.FETCH, None, size_bytes=50_000) == 0
    assert gated.ask(ApiKey.PRODUCE, None, size_bytes=50_000, user="v") == 0
    assert gated.connection.forgotten == 0
    assert gated.ask(ApiKey.PRODUCE, None, size_bytes=10_500) == 500
    assert gated.connection.forgotten == 1, "its next request comes this way, too"
    assert gated.ask(ApiKey.FETCH, ApiVersionsResponse()) == 0
    assert [len(frame) for frame in gated.behind.admitted] == [50_000, 50_000, 10_500, 100]


def test_throttle_time_is_set_in_responses_that_have_the_field(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gated = Gated(monkeypatch, {"producer_byte_rate": "1000"})
    response = ApiVersionsResponse()
    assert gated.ask(ApiKey.PRODUCE, response, size_bytes=10_500) == 500
    assert response.throttle_time_ms == 500
    without = SaslHandshakeResponse()
    assert gated.ask(ApiKey.PRODUCE, without, size_bytes=100) == 600
    assert not hasattr(without, "throttle_time_ms")


@pytest.mark.parametrize(
    ("said_ms", "behind_ms", "told_ms", "rest_ms"),
    [
        (0, 0, 500, 500),
        (400, 0, 500, 500),
        (700, 0, 700, 700),
        (0, 900, 500, 900),
        (700, 600, 700, 700),
    ],
)
def test_longest_throttle_time_applies(
    monkeypatch: pytest.MonkeyPatch, said_ms: int, behind_ms: int, told_ms: int, rest_ms: int
) -> None:
    """Of the quota, of what the handler has said, and of the gate behind."""
    gated = Gated(monkeypatch, {"producer_byte_rate": "1000"})
    gated.behind.rest_ms = behind_ms
    response = ApiVersionsResponse(throttle_time_ms=said_ms)
    assert gated.ask(ApiKey.PRODUCE, response, size_bytes=10_500) == rest_ms
    assert response.throttle_time_ms == told_ms


def test_handlers_throttle_time_is_kept_without_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    gated = Gated(monkeypatch, {})
    response = ApiVersionsResponse(throttle_time_ms=300)
    assert gated.ask(ApiKey.CREATE_TOPICS, response) == 300
    assert gated.ask(ApiKey.CREATE_TOPICS, ApiVersionsResponse()) == 0
    gated.behind.rest_ms = 20
    assert gated.ask(ApiKey.CREATE_TOPICS, None) == 20


def test_request_quota_counts_time_until_the_request_is_parked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One percent of a thread, of which ten seconds' worth of 100 ms may be used at once."""
    gated = Gated(monkeypatch, {"request_percentage": "1"})
    assert gated.ask(ApiKey.FETCH, ApiVersionsResponse(), took_ms=100) == 0
    long_parked = gated.ask(ApiKey.FETCH, ApiVersionsResponse(), parked_after_ms=1, took_ms=9000)
    assert long_parked == 100
    assert gated.behind.parkings == 1
    assert gated.ask(ApiKey.FETCH, ApiVersionsResponse(), took_ms=1) == 200, "counted anew"
    assert gated.ask(ApiKey.FETCH, None, took_ms=50) == 0, "without an answer no time counts"
    assert gated.ask(ApiKey.FETCH, ApiVersionsResponse(), took_ms=1) == 300


def test_produce_counts_for_byte_and_request_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = {"producer_byte_rate": "1000", "request_percentage": "1"}
    gated = Gated(monkeypatch, quotas)
    assert gated.ask(ApiKey.PRODUCE, None, size_bytes=10_100, took_ms=500) == 100
    response = ApiVersionsResponse()
    assert gated.ask(ApiKey.PRODUCE, response, size_bytes=0, took_ms=103) == 300
    assert gated.ask(ApiKey.PRODUCE, response, size_bytes=400, took_ms=0) == 500


@pytest.mark.parametrize("api_key", [ApiKey.LEADER_AND_ISR, ApiKey.ALTER_PARTITION])
def test_requests_between_brokers_are_not_counted(
    monkeypatch: pytest.MonkeyPatch, api_key: ApiKey
) -> None:
    gated = Gated(monkeypatch, {"request_percentage": "1"})
    assert gated.ask(api_key, ApiVersionsResponse(), took_ms=5000) == 0
    assert gated.connection.forgotten == 0


def test_uncounted_parked_request_is_reported_to_the_next_gate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gated = Gated(monkeypatch, {})
    assert gated.ask(ApiKey.FETCH, None, parked_after_ms=3) == 0
    assert gated.behind.parkings == 1


@pytest.mark.parametrize(
    ("throttle_ms", "idle_ms", "slept_s", "is_closed"),
    [
        (600, -1, 0.6, False),
        (600, 601, 0.6, False),
        (600, 600, 0.6, False),
        (600, 599, 0.599, True),
        (600, 0, 0.0, True),
        (0, 0, 0.0, False),
    ],
)
async def test_client_throttled_beyond_max_idle_time_is_closed_then(
    autojump_clock: trio.testing.MockClock,
    throttle_ms: int,
    idle_ms: int,
    slept_s: float,
    is_closed: bool,
) -> None:
    connection, frame = FakeConnection(), Frame()
    closed = False
    try:
        await rest(cast(Connection, connection), frame, throttle_ms, idle_ms)
    except CloseConnection:
        closed = True
    assert closed is is_closed
    assert trio.current_time() == pytest.approx(slept_s)
    assert connection.replies == [(frame, 0.0)], "it is answered first"


async def test_client_of_acks_0_is_throttled_too(autojump_clock: trio.testing.MockClock) -> None:
    connection = FakeConnection()
    await rest(cast(Connection, connection), None, 250, -1)
    assert trio.current_time() == pytest.approx(0.25)
    assert connection.replies == []
