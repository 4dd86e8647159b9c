"""Every declared metric is given by a broker that has something to say about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kwire.cluster.metadata.changes import SetConfigs
from kwire.cluster.metadata.entities import entity_key
from kwire.codecs.messages.fetch import FetchResponse
from kwire.codecs.messages.produce import ProduceResponse
from kwire.server.metrics.declared import METRICS
from tests.cluster.replication.cluster import cluster
from tests.coordinators.share_partitions.test_dead_letters_on_a_broker import reader_on
from tests.inside import until
from tests.requests.handlers.node import Node
from tests.server.metrics.measured_broker import measured_broker
from tests.server.metrics.scraping import given, names_given, scrape, scraper_of
from tests.server.metrics.test_cluster_metrics import change
from tests.server.metrics.test_coordinators import (
    SETTINGS,
    commit,
    coordinating,
    hosting,
    join,
    join_streams,
)
from tests.server.network.test_connection import connected, fetch, produce


async def names_of_groups_and_quotas(make_node: Callable[..., Node]) -> frozenset[str]:
    """The metrics of a broker with groups, an open transaction and a quota in use."""
    node = make_node(SETTINGS)
    scraper = scraper_of(node.broker)
    hosting(node)
    node.create("leaderless")
    change(node, "leaderless", leader=-1, leader_epoch=1)
    commit(node, "simple", 0, 0)
    join(node, "modern", "m")
    join_streams(node, "app")
    node.append("t", producer=(7, 0, 0), transactional=True)
    key = entity_key({"user": "alice"})
    node.show(SetConfigs(*key, {}, {"producer_byte_rate": "1000", "request_percentage": "50"}))
    quotas = node.broker.configs.quotas
    assert quotas is not None
    quotas.produced("alice", "app", 1)
    quotas.requested("alice", "app", 1)
    return names_given(scraper)


async def names_of_a_share_group(directory: Path) -> frozenset[str]:
    async with reader_on(directory, {}) as reader:
        await reader.configure(share_auto_offset_reset="earliest")
        await reader.join()
        await reader.acquire()
        await reader.reject(0, 1)
        await reader.until_lag(8)
        return names_given(scraper_of(reader.broker))


async def names_of_a_follower(directory: Path) -> frozenset[str]:
    async with cluster(directory, 1, 2) as controller:
        await controller.elect(1, [1, 2])
        await controller.produce(1, b"a")
        follower = controller.members[2].broker
        scraper = scraper_of(follower)
        lag = "kafka_server_fetcherlagmetrics_consumerlag"
        await until(
            lambda: scrape(scraper).all_of(lag) == {("ReplicaFetcherThread-0-1", "t", "0"): 0}
        )
        return names_given(scraper)


async def names_of_requests(directory: Path, monkeypatch: pytest.MonkeyPatch) -> frozenset[str]:
    async with measured_broker(directory, monkeypatch) as measured:
        client = await connected(measured.broker)
        await client.ask(produce(), 9, ProduceResponse)
        await client.ask(fetch(0), 12, FetchResponse)
        assert measured.metrics._scraper is not None
        return names_given(measured.metrics._scraper)


async def test_each_declared_metric_is_given_with_all_and_alone(
    make_node: Callable[..., Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = await names_of_groups_and_quotas(make_node)
    given |= await names_of_a_share_group(tmp_path / "shares")
    given |= await names_of_a_follower(tmp_path / "replicas")
    given |= await names_of_requests(tmp_path / "requests", monkeypatch)
    assert METRICS.keys() - given == set()
    assert given <= METRICS.keys()


async def test_whole_scrape_is_valid_in_both_formats_with_the_same_values(
    make_node: Callable[..., Node],
) -> None:
    node = coordinating(make_node)
    commit(node, "simple", 0, 0)
    samples = given(scraper_of(node.broker))
    plain, open_metrics = (
        {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in parse(b"".join(samples.text(open_metrics=is_open)).decode())
            for sample in family.samples
        }
        for parse, is_open in ((parse_text, False), (parse_open_metrics, True))
    )
    assert plain == open_metrics
    assert len(plain) > 100
