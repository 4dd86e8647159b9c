"""The metrics of brokers that replicate: under-replicated partitions, ISRs, and lags."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.server.metrics.scrape import Scraper
from tests.cluster.replication.cluster import cluster as controlled
from tests.coordinators.runtime.cluster import OFFSETS, Cluster, cluster
from tests.inside import until
from tests.server.metrics.scraping import scrape, scraper_of

NOW_MS = 1_700_000_000_000
URP = "kafka_server_replicamanager_underreplicatedpartitions"
LAG = "kafka_server_fetcherlagmetrics_consumerlag"


@asynccontextmanager
async def two_brokers(
    directory: Path, **settings: str
) -> AsyncIterator[tuple[Cluster, dict[int, Scraper]]]:
    """Brokers 1 and 2, and what scrapes each of them."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    async with cluster(directory, 1, 2, settings=named) as made:
        yield (
            made,
            {number: scraper_of(each.broker) for number, each in made.members.items()},
        )


def append(made: Cluster, number: int, topic: str, *values: bytes) -> None:
    batch = build([Record(at, NOW_MS, None, value) for at, value in enumerate(values)])
    made.members[number].partition(topic).append(batch, now_ms=NOW_MS)


async def test_partition_is_under_replicated_after_its_follower_stops_and_until_it_returns(
    tmp_path: Path,
) -> None:
    async with two_brokers(tmp_path, replica_lag_time_max_ms="100") as (made, scrapers):
        made.create("t", (1, 2))
        leader = scrapers[1]

        def under_replicated() -> float:
            return scrape(leader).of(URP)

        assert under_replicated() == 0
        made.silence(2, "t")
        append(made, 1, "t", b"a")
        await until(lambda: under_replicated() == 1)
        found = scrape(leader)
        assert found.of("kafka_cluster_partition_underreplicated", "t", "0") == 1
        assert found.of("kafka_cluster_partition_insyncreplicascount", "t", "0") == 1
        made.elect("t", 0, 1)
        await until(lambda: under_replicated() == 0)
        found = scrape(leader)
        assert found.of("kafka_cluster_partition_insyncreplicascount", "t", "0") == 2


async def test_shrink_and_expansion_of_an_isr_are_counted_by_the_leader(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (made, scrapers):
        made.create("t", (1, 2))
        state = made.topics["t"][0]
        for isr in ((1,), (1, 2)):
            state.isr = isr
            made.elect("t", 0, 1)
        for number, count in ((1, 1), (2, 0)):
            found = scrape(scrapers[number])
            assert found.of("kafka_server_replicamanager_isrshrinks_total") == count
            assert found.of("kafka_server_replicamanager_isrexpands_total") == count


async def test_follower_gives_the_lag_of_each_partition_that_it_fetches(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (made, scrapers):
        made.create("t", (1, 2))
        append(made, 1, "t", b"a", b"b")
        follower = made.members[2].partition("t")
        await until(lambda: follower.high_watermark == 2)
        found = scrape(scrapers[2])
        assert found.all_of(LAG) == {("ReplicaFetcherThread-0-1", "t", "0"): 0}
        assert found.of("kafka_server_replicafetchermanager_maxlag", "Replica") == 0
        assert scrape(scrapers[1]).all_of(LAG) == {}


async def test_connections_of_a_follower_to_its_leader_are_counted(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (made, scrapers):
        made.create("t", (1, 2))
        append(made, 1, "t", b"a" * 1000)
        follower = made.members[2].partition("t")
        await until(lambda: follower.high_watermark == 1)
        found = scrape(scrapers[2])
        work = "1", "fetcher"
        assert found.of("kwire_peer_connections", *work) == 1
        assert found.of("kwire_peer_connections_opened_total", *work) == 1
        assert found.of("kwire_peer_connection_failures_total", *work) == 0
        # ApiVersions, and a fetch with the record; there may be more of them.
        assert found.of("kwire_peer_requests_total", *work) >= 2
        assert found.of("kwire_peer_outgoing_bytes_total", *work) > 2 * 20
        assert found.of("kwire_peer_incoming_bytes_total", *work) > 1000


async def test_fetch_of_a_follower_without_records_expires_at_the_leader(tmp_path: Path) -> None:
    async with two_brokers(tmp_path, replica_fetch_wait_max_ms="10") as (made, scrapers):
        made.create("t", (1, 2))
        expires = "kafka_server_delayedfetchmetrics_expires_total"
        await until(lambda: scrape(scrapers[1]).of(expires, "follower") > 0)
        assert scrape(scrapers[1]).of(expires, "consumer") == 0


async def test_lag_of_a_group_on_a_partition_of_another_broker_is_known_after_a_question(
    tmp_path: Path,
) -> None:
    async with two_brokers(tmp_path) as (made, scrapers):
        made.create("t", (2,), (1,))
        made.create(OFFSETS, (1,))
        append(made, 2, "t", b"a", b"b", b"c")
        coordinator = await made.until_served(OFFSETS)
        coordinator.broker.coordinators.groups.partitions = 1
        places = [OffsetCommitRequestPartition(0, 1), OffsetCommitRequestPartition(1, 0)]
        topics = [OffsetCommitRequestTopic("t", partitions=places)]
        reply = await coordinator.ask(
            OffsetCommitRequest("g", topics=topics), 9, OffsetCommitResponse
        )
        assert {each.error_code for each in reply.topics[0].partitions} == {ErrorCode.NONE}
        lag = "kafka_consumergroup_lag"
        assert scrape(scrapers[1]).all_of(lag) == {("g", "t", "1"): 0}
        await scrapers[1].ends.ask()
        assert scrape(scrapers[1]).all_of(lag) == {("g", "t", "1"): 0, ("g", "t", "0"): 2}
        await made.stop(2)
        await scrapers[1].ends.ask()
        assert scrape(scrapers[1]).all_of(lag) == {("g", "t", "1"): 0}


async def test_change_of_an_isr_that_the_controller_refuses_is_counted(tmp_path: Path) -> None:
    name = "kafka_server_replicamanager_failedisrupdates_total"
    async with controlled(tmp_path, 1, 2, settings={"replica.lag.time.max.ms": "100"}) as made:
        scraper = scraper_of(made.members[1].broker)
        await made.elect(1, [1, 2])
        assert scrape(scraper).of(name) == 0
        made.refusal = ErrorCode.OPERATION_NOT_ATTEMPTED
        await made.stop_replica(2, delete=False)
        await made.produce(1, b"a", acks=1)
        await until(lambda: scrape(scraper).of(name) > 0)
