"""What measured connections count, with shortcuts, gates, logins, TLS and faults."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.cluster.membership.committing import create_internal_topic
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.fetch import FetchResponse
from kwire.codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.codecs.messages.produce import ProduceResponse
from kwire.requests.handlers import list_groups
from kwire.requests.shortcuts.heartbeat import RepeatedConsumerGroupHeartbeat, RepeatedHeartbeat
from kwire.server.metrics.meters import EXACT_MAX, SAMPLED_EVERY, RequestMeter
from kwire.server.server import serve
from kwire.settings import load
from kwire.testing.hooks.control.service import Control
from tests.inside import RawClient, running_broker, until
from tests.requests.shortcuts.test_repeated_heartbeats import member_of
from tests.security.sasl_client import SASL, logged_in, plain
from tests.security.tls.authority import Authority
from tests.server.metrics.measured_broker import kept_metrics, measured_broker
from tests.server.network.test_connection import connected, fetch, is_closed, produce
from tests.server.network.test_controlled import ask_control
from tests.server.network.test_quotas import set_quota
from tests.server.network.test_tls import API_VERSIONS, client_context, connect_tls, receive_frame

LATEST = -1


def offsets_of(topic: str) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )


def timed(meter: RequestMeter) -> set[int]:
    """How many requests each of the times that are always measured stands for."""
    return {meter.local.count, meter.total.count, meter.request_bytes.count}


async def test_each_request_counts_once_by_version_with_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        before = measured.meters.listeners["PLAINTEXT"]
        bytes_in, bytes_out = before.bytes_in, before.bytes_out
        sent = received = 0
        for version in (4, 4, 3):
            sent += len(client.frame(ListGroupsRequest(), version))
            await client.send(ListGroupsRequest(), version)
            reply = await client.receive_frame()
            assert reply is not None
            received += len(reply) + 4
        meters = measured.meters
        meter = meters.requests["ListGroups"]
        assert dict(meter.versions) == {4: 2, 3: 1}
        assert dict(meter.errors) == {0: 3}
        assert (meter.count, meter.shortcuts, meter.response_bytes) == (3, 0, received)
        assert timed(meter) == {3}
        listener = meters.listeners["PLAINTEXT"]
        assert (listener.bytes_in - bytes_in, listener.bytes_out - bytes_out) == (sent, received)
        assert listener.requests == meters.requests["CreateTopics"].count + 3


@pytest.mark.parametrize("in_flight", [1, 5])
async def test_shortcuts_answers_count_as_requests_and_replies_stay_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_flight: int
) -> None:
    count = 200
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        for first in range(0, count, in_flight):
            frames = [client.frame(produce(), 9) for _ in range(in_flight)]
            await client.stream.send_all(b"".join(frames))
            for number in range(in_flight):
                _, told = await client.receive(ProduceResponse, 9)
                assert told.responses[0].partition_responses[0].base_offset == first + number
        for _ in range(10):
            await client.ask(offsets_of("flights"), 7, ListOffsetsResponse)
        for _ in range(10):
            await client.ask(offsets_of("flights"), 6, ListOffsetsResponse)
        meters = measured.meters
        meter = meters.requests["Produce"]
        assert dict(meter.versions) == {9: count}
        assert dict(meter.errors) == {0: count}
        assert count - 10 < meter.shortcuts < count
        assert timed(meter) == {count}
        topic = meters.topics["flights"]
        assert (topic.messages_in, topic.produce_requests) == (count, count)
        offsets = meters.requests["ListOffsets"]
        assert dict(offsets.versions) == {7: 10, 6: 10}
        assert offsets.shortcuts == 18
        (key, load), *others = meters.clients.busiest()
        assert (key.client_id, load.requests, others) == ("test", count + 21, [])


async def test_errors_count_by_code_and_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        await client.ask(produce(topic="absent"), 9, ProduceResponse)
        await client.ask(fetch(77), 12, FetchResponse)
        meters = measured.meters
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert dict(meters.requests["Produce"].errors) == {unknown: 1}
        assert dict(meters.requests["FetchConsumer"].errors) == {
            0: 1,
            ErrorCode.OFFSET_OUT_OF_RANGE: 1,
        }
        assert "absent" not in meters.topics
        assert meters.topics["flights"].fetch_requests == 1
        assert meters.topics["flights"].failed_fetch_requests == 0


async def test_api_versions_of_an_unknown_version_counts_as_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await RawClient.connect(measured.broker)
        await client.stream.send_all(bytes.fromhex("0000000b 0012 0063 00000001 ffff 00"))
        assert await client.receive_frame()
        meter = measured.meters.requests["ApiVersions"]
        assert dict(meter.versions) == {99: 1}
        assert dict(meter.errors) == {ErrorCode.UNSUPPORTED_VERSION: 1}


async def test_first_repeated_request_of_a_slice_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the client had sent so many before that only samples of them were timed."""
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        for _ in range(EXACT_MAX + 10):
            await client.ask(produce(), 9, ProduceResponse)
        meters = measured.meters
        meter = meters.requests["Produce"]
        meters._turn()
        meters.fold()
        before = meter.local.count
        await client.ask(produce(), 9, ProduceResponse)
        assert meter.local.count == before + 1


@pytest.mark.parametrize("shortcut", [RepeatedHeartbeat, RepeatedConsumerGroupHeartbeat])
async def test_heartbeats_that_shortcuts_answer_count_as_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shortcut: object
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        broker = measured.broker
        await create_internal_topic(broker.membership, "__consumer_offsets")
        member = await member_of(broker, shortcut)
        name = "Heartbeat" if shortcut is RepeatedHeartbeat else "ConsumerGroupHeartbeat"
        meter = measured.meters.requests[name]
        count, shortcuts, sent = meter.count, meter.shortcuts, meter.response_bytes
        for _ in range(10):
            await member.beat()
        assert measured.meters.requests[name] is meter
        assert (meter.count - count, meter.shortcuts - shortcuts) == (10, 10)
        assert dict(meter.errors) == {0: meter.count}
        assert (meter.response_bytes - sent) % 10 == 0 < meter.response_bytes - sent


async def test_producer_of_two_topics_in_turn_counts_without_shortcuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request has another head than the one before, so no shortcut answers it."""
    count = EXACT_MAX + 3 * SAMPLED_EVERY
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        other = CreatableTopic(name="other", num_partitions=1, replication_factor=1)
        created = await client.ask(
            CreateTopicsRequest(topics=[other], timeout_ms=5000), 5, CreateTopicsResponse
        )
        assert not created.topics[0].error_code
        frames = [client.frame(produce(topic=name), 9) for name in ("flights", "other")]
        for _ in range(count // 2):
            await client.stream.send_all(b"".join(frames))
            for _ in frames:
                await client.receive_frame()
        meters = measured.meters
        meter = meters.requests["Produce"]
        assert meter.shortcuts == 0
        assert (dict(meter.versions), dict(meter.errors)) == ({9: count}, {0: count})
        # Each gap between two timed requests is below two times the mean.
        assert abs(meter.local.count - count) < 2 * SAMPLED_EVERY
        assert meters.topics["other"].produce_requests == count // 2


async def test_defect_of_a_handler_counts_as_unknown_server_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(list_groups, "handle", fail)
    monkeypatch.setattr("kwire.requests.routes._bindings", {})
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await RawClient.connect(measured.broker)
        await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        meter = measured.meters.requests["ListGroups"]
        assert dict(meter.errors) == {ErrorCode.UNKNOWN_SERVER_ERROR: 1}
        assert meter.count == 1


async def test_wait_of_a_fetch_is_remote_time_and_not_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        await client.ask(fetch(0, max_wait_ms=50), 12, FetchResponse)
        meters = measured.meters
        meter = meters.requests["FetchConsumer"]
        assert timed(meter) == {1}
        assert meter.remote.sum > 40_000_000
        assert meter.total.sum >= meter.remote.sum + meter.local.sum
        (slow,) = [each for each in meters.slowest.listed() if each.name == "FetchConsumer"]
        assert slow.blamed == slow.total - slow.remote
        assert measured.broker.hosted.expired.consumer_fetches == 1


async def test_produce_without_a_response_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        await client.send(produce(acks=0), 9)
        await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        meter = measured.meters.requests["Produce"]
        assert (dict(meter.versions), dict(meter.errors)) == ({9: 1}, {})
        assert measured.meters.topics["flights"].messages_in == 1


async def test_throttle_time_counts_for_request_and_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota puts a gate before the shortcuts, which then answer behind it."""
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        for _ in range(3):
            await client.ask(produce(), 9, ProduceResponse)
        await set_quota(measured.broker, "producer_byte_rate", 1000.0, {"client-id": "test"})
        told = await client.ask(produce(10_500), 9, ProduceResponse)
        assert told.throttle_time_ms
        await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)  # it was muted until now
        meters = measured.meters
        assert meters.requests["Produce"].count == 4
        assert meters.requests["Produce"].throttle.sum == told.throttle_time_ms * 1_000_000
        load = dict(meters.clients.busiest())
        throttled = {key.client_id: each.throttle_ns for key, each in load.items()}
        assert throttled == {"test": told.throttle_time_ms * 1_000_000, "admin": 0}


async def test_throttle_time_counts_for_a_client_that_sends_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        await set_quota(measured.broker, "producer_byte_rate", 1000.0, {"client-id": "test"})
        told = await client.ask(produce(10_500), 9, ProduceResponse)

        def throttled() -> dict[str | None, int]:
            """The throttle times by client; the request itself is folded long before its own."""
            busiest = measured.meters.clients.busiest()
            return {key.client_id: load.throttle_ns for key, load in busiest if load.throttle_ns}

        await until(lambda: bool(throttled()))
        assert throttled() == {"test": told.throttle_time_ms * 1_000_000}


async def test_shortcut_behind_a_gate_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        await set_quota(measured.broker, "producer_byte_rate", 1e9, {"client-id": "other"})
        client = await connected(measured.broker)
        for _ in range(5):
            await client.ask(produce(), 9, ProduceResponse)
        meter = measured.meters.requests["Produce"]
        assert (dict(meter.versions), dict(meter.errors)) == ({9: 5}, {0: 5})
        assert timed(meter) == {5}


async def test_connections_count_by_listener_and_those_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"max.connections.per.ip": "2"}
    async with measured_broker(tmp_path, monkeypatch, settings) as measured:
        clients = [await RawClient.connect(measured.broker) for _ in range(2)]
        for client in clients:
            await client.ask(ApiVersionsRequest("test", "1"), 3, ApiVersionsResponse)
        assert await is_closed(await RawClient.connect(measured.broker))
        listener = measured.meters.listeners["PLAINTEXT"]
        assert (listener.open, listener.opened, listener.refused) == (2, 2, 1)
        await clients[0].stream.aclose()
        await until(lambda: listener.closed == 1)
        assert listener.open == 1
        assert len(measured.meters.connections) == 1
        assert measured.meters.requests["ApiVersions"].count == 2


async def test_logins_count_and_so_do_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch, SASL) as measured:
        client = await logged_in(measured.broker)
        await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        stranger = await RawClient.connect(measured.broker)
        assert (await plain(stranger, "alice", "wrong")).error_code
        assert await is_closed(stranger)
        listener = measured.meters.listeners["SASL_PLAINTEXT"]
        await until(lambda: listener.closed == 1)
        assert (listener.logins, listener.failed_logins) == (1, 1)
        (key, _), *_ = measured.meters.clients.busiest()
        assert key.principal == "User:alice"


async def test_renewed_login_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**SASL, "connections.max.reauth.ms": "3600000"}
    async with measured_broker(tmp_path, monkeypatch, settings) as measured:
        client = await logged_in(measured.broker)
        assert not (await plain(client)).error_code
        await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        listener = measured.meters.listeners["SASL_PLAINTEXT"]
        assert (listener.logins, listener.renewals, listener.failed_logins) == (1, 1, 0)


async def test_tls_connections_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    own = authority.issue()
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.write_pem(tmp_path / "own.pem")),
    }
    async with measured_broker(tmp_path / "data", monkeypatch, settings) as measured:
        stream = await connect_tls(measured.broker, client_context(authority))
        for _ in range(3):
            await stream.send_all(API_VERSIONS)
            await receive_frame(stream)
        assert measured.meters.requests["ApiVersions"].count == 3
        listener = measured.meters.listeners["SSL"]
        assert (listener.logins, listener.failed_logins) == (1, 0)
        with pytest.raises(trio.BrokenResourceError):
            await connect_tls(measured.broker, client_context(Authority()))
        await until(lambda: listener.failed_logins == 1)


async def test_fault_of_a_controlled_broker_is_injected_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = kept_metrics(monkeypatch)
    control, stop = Control(0), trio.Event()
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path),
        "metrics.port": "0",
    }
    async with trio.open_nursery() as nursery:
        broker = await nursery.start(
            partial(serve, control=control), load(None, settings, {}), stop
        )
        rule = {"api": "ListGroups", "error": "COORDINATOR_NOT_AVAILABLE", "times": 1}
        await ask_control(control, "POST", "/faults", rule)
        await ask_control(control, "POST", "/traces", {"api": "ListGroups"})
        client = await connected(broker)
        for _ in range(2):
            await client.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        for _ in range(4):
            await client.ask(produce(), 9, ProduceResponse)
        meters = made[0].meters
        meters.fold()
        meter = meters.requests["ListGroups"]
        assert dict(meter.versions) == {4: 2}
        assert dict(meter.errors) == {ErrorCode.COORDINATOR_NOT_AVAILABLE: 1, 0: 1}
        assert meters.topics["flights"].messages_in == 4
        stop.set()


async def test_records_of_recompressed_batches_count_as_conversions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch, {"compression.type": "gzip"}) as measured:
        client = await connected(measured.broker)
        for _ in range(3):
            await client.ask(produce(), 9, ProduceResponse)
        topic = measured.meters.topics["flights"]
        assert (topic.produce_conversions, topic.messages_in) == (3, 3)


async def test_counts_of_deleted_topics_stay_in_the_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        await client.ask(produce(), 9, ProduceResponse)
        measured.broker.hosted.drop("flights", 0)
        meters = measured.meters
        assert "flights" not in meters.topics
        assert meters.all_topics().messages_in == 1


async def test_calls_on_log_files_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"log.flush.interval.messages": "1"}
    async with measured_broker(tmp_path, monkeypatch, settings) as measured:
        client = await connected(measured.broker)
        for _ in range(3):
            await client.ask(produce(), 9, ProduceResponse)
        disk = measured.meters.disk
        await until(lambda: disk.flush.count >= 3)
        assert disk.flush.sum > 0


async def test_unmeasured_broker_answers_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop over repeated requests is written twice; both give the same replies."""

    async def replies(client: RawClient) -> list[bytes]:
        got = []
        for number in range(60):
            requests = [produce(), offsets_of("flights"), fetch(0), produce(topic="absent")]
            versions = [9, 7, 12, 9]
            chosen = number * 7 % 4
            await client.send(requests[chosen], versions[chosen])
            reply = await client.receive_frame()
            assert reply is not None
            got.append(reply)
        return got

    monkeypatch.setattr("kwire.broker.broker.Broker.now_ms", staticmethod(lambda: 1_000_000))
    async with running_broker(tmp_path / "plain") as broker:
        usual = await replies(await connected(broker))
    async with measured_broker(tmp_path / "measured", monkeypatch) as measured:
        client = await connected(measured.broker)
        before = measured.meters.listeners["PLAINTEXT"].bytes_out
        got = await replies(client)
        assert got == usual
        sent = measured.meters.listeners["PLAINTEXT"].bytes_out - before
        assert sent == sum(len(each) + 4 for each in got)
