"""What the endpoint answers over real sockets, and whom it refuses."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from kwire.broker.broker import Broker
from kwire.codecs.messages.fetch import FetchResponse
from kwire.codecs.messages.produce import ProduceResponse
from kwire.groups.effects import Rebalance
from kwire.server.http.messages import HttpRequest
from kwire.server.metrics.endpoint import MetricsEndpoint
from kwire.server.metrics.health import Health, Phase
from kwire.server.metrics.meters import Meters
from kwire.settings import ConfigError, load
from kwire.settings.entries import BrokerLayers, broker_entries
from tests.inside import running_broker
from tests.server.metrics.measured_broker import measured_broker
from tests.server.network.test_connection import connected, fetch, produce


async def test_scrape_is_text_for_prometheus_and_open_metrics_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        for _ in range(3):
            await client.ask(produce(), 9, ProduceResponse)
        await client.ask(fetch(0), 12, FetchResponse)
        status, text = await measured.get("/metrics")
        assert status == 200
        families = {family.name: family for family in parse(text)}
        (end,) = families["kafka_log_log_logendoffset"].samples
        assert (end.labels, end.value) == ({"topic": "flights", "partition": "0"}, 3)
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        status, text = await measured.get("/metrics", accept)
        assert status == 200
        assert text.endswith("# EOF\n")
        parsed = parse_open_metrics(text)  # type: ignore[no-untyped-call]  # the library has no types
        assert {family.name for family in parsed} >= families.keys()


async def test_scrape_of_chosen_names_has_these_metrics_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        await client.ask(produce(), 9, ProduceResponse)
        chosen = "name[]=kafka_log_log_size&name%5B%5D=kwire_loop_late_seconds&name[]=absent"
        status, text = await measured.get(f"/metrics?{chosen}")
        assert status == 200
        found = {family.name for family in parse(text)}
        assert found == {"kafka_log_log_size", "kwire_loop_late_seconds"}
        status, text = await measured.get("/metrics?name[]=absent")
        assert (status, text) == (200, "")


async def test_broker_that_serves_is_healthy_and_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        for path, name in (("/healthz", "healthy"), ("/readyz", "ready")):
            status, said = await measured.json(path)
            assert status == 200
            assert said[name] is True
            assert (said["reasons"], said["phase"], said["broker"]) == ([], "serving", 1)
        measured.metrics.stopping()
        status, said = await measured.json("/readyz")
        assert (status, said["reasons"]) == (503, ["the broker is stopping"])
        assert (await measured.json("/healthz"))[0] == 200


async def test_broker_with_an_offline_log_directory_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    settings = {"log.dirs": directories}
    async with measured_broker(tmp_path, monkeypatch, settings) as measured:
        measured.broker.logs.dirs.dir_failed(
            next(each for each in measured.broker.logs.online_dirs if each.path.name == "b"),
            OSError(5, "Input/output error"),
        )
        status, said = await measured.json("/readyz")
        assert status == 503
        assert [reason for reason in said["reasons"] if "b is offline" in reason]
        assert (await measured.json("/healthz"))[0] == 200


@pytest.mark.parametrize(
    ("lost", "reason"), [(None, "the log directories are lost"), ("no session", "no session")]
)
def test_broker_that_has_lost_its_storage_is_not_alive(lost: str | None, reason: str) -> None:
    health = Health()
    broker = SimpleNamespace(storage_lost=trio.Event(), membership_lost=lost)
    health.broker = cast(Broker, broker)
    assert health.why_not_alive() == []
    broker.storage_lost.set()
    assert health.why_not_alive() == [reason]


async def test_broker_that_its_cluster_does_not_count_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        broker, health = measured.broker, measured.metrics.health
        assert health.why_not_ready() == []
        with monkeypatch.context() as changed:
            changed.setattr(type(broker.membership), "has_metadata", False)
            assert "has not sent the metadata" in health.why_not_ready()[0]
        image = broker.image
        monkeypatch.setattr(broker.metadata, "image", image.__class__(cluster_id=image.cluster_id))
        assert "fenced" in health.why_not_ready()[0]


def test_starting_broker_is_alive_and_not_ready() -> None:
    health = Health()
    assert health.alive_reply().status == 200
    assert health.ready_reply().status == 503
    assert health.ready_reply().body["reasons"] == [Phase.STARTING.value]


async def test_slow_lists_requests_and_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        await client.ask(produce(), 9, ProduceResponse)
        status, said = await measured.json("/slow")
        assert status == 200
        names = [request["name"] for request in said["requests"]]
        assert {"CreateTopics", "Produce"} <= set(names)
        assert all(request["client_id"] == "test" for request in said["requests"])
        assert said["requests"][0]["blamed"] == max(each["blamed"] for each in said["requests"])
        assert said["clients"][0]["client_id"] == "test"
        assert said["clients"][0]["requests"] == len(names)


def endpoint(host: str = "127.0.0.1") -> MetricsEndpoint:
    return MetricsEndpoint(host, Health(), Meters())


async def test_slow_lists_the_last_rebalance_of_groups_the_newest_first() -> None:
    own = endpoint()
    own.rebalances = {each: Rebalance(each, "member m joins", 5) for each in ("older", "newer")}
    reply = await own.answer(request("GET", "/slow"))
    assert reply.body["rebalances"] == [
        {"group_id": each, "reason": "member m joins", "at_ms": 5} for each in ("newer", "older")
    ]


def request(method: str, target: str, host: str = "localhost:1") -> HttpRequest:
    return HttpRequest(method, target, {"host": host})


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (request("GET", "/"), 200),
        (request("HEAD", "/healthz"), 200),
        (request("GET", "/other"), 404),
        (request("POST", "/metrics"), 405),
        (request("GET", "/metrics"), 503),
        (request("GET", "/metrics", "example.org"), 403),
        (request("GET", "http://[::1"), 400),
    ],
)
async def test_request_gets_the_status(asked: HttpRequest, status: int) -> None:
    assert (await endpoint().answer(asked)).status == status


async def test_any_host_header_is_accepted_where_the_endpoint_is_not_local() -> None:
    asked = request("GET", "/healthz", "broker-1.example.org")
    assert (await endpoint("0.0.0.0").answer(asked)).status == 200
    assert (await endpoint("").answer(asked)).status == 200


async def test_broker_without_the_setting_has_the_usual_classes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        assert type(broker).__name__ == "Broker"
        partition = broker.hosted.get("flights", 0)
        assert type(partition).__name__ == "Partition"
        await client.stream.aclose()
    assert "metrics serves" not in caplog.text


async def test_occupied_port_ends_the_start(tmp_path: Path) -> None:
    listening = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listening.socket.getsockname()[1]
    with pytest.RaisesGroup(
        pytest.RaisesExc(OSError, match=f"cannot listen on 127.0.0.1 port {port}"),
        flatten_subgroups=True,
    ):
        async with running_broker(tmp_path, {"metrics.port": str(port)}):
            pass
    await listening.aclose()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics.port": "65536"}, "metrics.port must be a port"),
        ({"metrics.port": "-1"}, "metrics.port must be a port"),
        ({"metrics.port": "x"}, "metrics.port"),
        ({"metrics.host": "0.0.0.0"}, "metrics.host needs metrics.port"),
    ],
)
def test_invalid_setting_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(None, settings, {})


def test_settings_have_the_address_of_the_endpoint() -> None:
    metrics = load(None, {"metrics.port": "9404", "metrics.host": "::1"}, {}).metrics
    assert (metrics.metrics_host, metrics.metrics_port) == ("::1", 9404)
    assert load(None, {}, {}).metrics.metrics_port is None


async def test_describe_configs_has_the_address_only_if_it_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def metrics_of(broker: Broker) -> dict[str, str | None]:
        layers = BrokerLayers(broker.config, broker.image, broker.node_id)
        entries = broker_entries(layers, None)
        return {
            each.name: each.value
            for each in entries
            if each.name in ("metrics.port", "metrics.host")
        }

    async with measured_broker(tmp_path / "measured", monkeypatch) as measured:
        assert metrics_of(measured.broker) == {"metrics.port": str(measured.port)}
    async with running_broker(tmp_path / "plain") as broker:
        assert metrics_of(broker) == {}
