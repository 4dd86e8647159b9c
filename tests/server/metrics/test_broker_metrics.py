"""The metrics of the process, its disks, sessions and quotas."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

import kwire
from kwire.cluster.metadata.changes import SetConfigs
from kwire.cluster.metadata.entities import entity_key
from tests.requests.handlers.node import Node
from tests.server.metrics.measured_broker import measured_broker
from tests.server.metrics.scraping import Scraped, scrape, scraper_of


def scrape_of(node: Node) -> Scraped:
    return scrape(scraper_of(node.broker))


def test_process_metrics_are_those_of_this_process(node: Node) -> None:
    found = scrape_of(node)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert found.of("process_max_fds") == limit
    assert abs(found.of("process_open_fds") - len(os.listdir("/proc/self/fd"))) < 10
    assert found.of("process_resident_memory_bytes") > 1_000_000
    assert found.of("kwire_threads") >= 1
    ((version, _, node_id, cluster_id),) = found.all_of("kwire_info")
    assert (version, node_id, cluster_id) == (kwire.__version__, "1", "test-cluster")


def test_time_is_that_of_the_brokers_clock(node: Node) -> None:
    before = node.broker.now_ms()
    found = scrape_of(node).of("kwire_time_seconds")
    assert before <= round(1000 * found) <= node.broker.now_ms()


def test_log_directory_gives_the_room_on_its_disk_and_whether_it_is_cordoned(node: Node) -> None:
    (directory,) = node.logs.dirs.online_dirs
    name = str(directory.path)
    found = scrape_of(node)
    total_bytes, _ = directory.disk_usage()
    assert found.of("kwire_log_directory_total_bytes", name) == total_bytes
    assert 0 < found.of("kwire_log_directory_usable_bytes", name) <= total_bytes
    assert found.of("kafka_log_logmanager_logdirectorycordoned", name) == 0
    node.logs.dirs.cordon(["*"])
    found = scrape_of(node)
    assert found.of("kafka_log_logmanager_logdirectorycordoned", name) == 1
    assert found.of("kafka_log_logmanager_cordonedlogdirectorycount") == 1


def test_log_that_the_cleaner_gave_up_on_is_uncleanable(node: Node) -> None:
    name = "kafka_log_logcleanermanager_uncleanable_partitions_count"
    node.create("t", cleanup_policy="compact")
    directory = str(node.logs.dirs.online_dirs[0].path)
    assert scrape_of(node).of(name, directory) == 0
    node.logs.cleaner._give_up(node.partition("t").log, ValueError("a corrupt batch"))
    assert scrape_of(node).of(name, directory) == 1
    node.delete("t")
    assert scrape_of(node).of(name, directory) == 0


def test_quota_gives_the_rate_the_limit_and_the_throttle_time_of_who_shares_it(
    node: Node,
) -> None:
    key = entity_key({"user": "alice", "client-id": None})
    assert scrape_of(node).all_of("kwire_quota_limit") == {}
    node.show(SetConfigs(*key, {}, {"producer_byte_rate": "1000", "request_percentage": "50"}))
    quotas = node.broker.configs.quotas
    assert quotas is not None
    quotas._now_ms = lambda: 5_000.0
    quotas.produced("alice", "app", 22_000)
    quotas.requested("alice", "app", 1_000_000)
    quotas.produced("bob", "app", 22_000)
    found = scrape_of(node)
    labels = ("Produce", "alice", "app")
    # Ten empty windows of a second count as gone by.
    assert found.all_of("kafka_server_quota_byte_rate") == {labels: 2200}
    assert found.of("kwire_quota_limit", *labels) == 1000
    assert found.of("kafka_server_quota_throttle_time", *labels) == 12_000
    assert found.of("kafka_server_quota_throttle_time", "Request", "alice", "app") == 0
    assert found.of("kafka_server_quota_request_time", "Request", "alice", "app") == (
        pytest.approx(0.01)  # a millisecond in ten seconds, in percent
    )


async def test_broker_state_follows_the_phase_of_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "kafka_server_kafkaserver_brokerstate"
    async with measured_broker(tmp_path, monkeypatch) as measured:
        scraper = measured.metrics._scraper
        assert scraper is not None
        assert scrape(scraper).of(name) == 3
        measured.metrics.stopping()
        assert scrape(scraper).of(name) == 6
