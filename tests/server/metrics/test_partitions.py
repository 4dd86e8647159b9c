"""The metrics of partitions: their logs, their replicas, and what waits in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from kwire.cluster.metadata.changes import AlterPartition
from kwire.codecs.batches import ControlType
from kwire.server.metrics.collecting import partitions
from kwire.server.metrics.samples import Samples
from tests.requests.handlers.node import NODE_ID, Node
from tests.server.metrics.scraping import Scraped, scrape, scraper_of

BATCH_BYTES = 146
"""The size of a batch of `Node.append`, which has five records."""


def scrape_of(node: Node) -> Scraped:
    return scrape(scraper_of(node.broker))


def test_log_metrics_are_those_of_each_log(node: Node) -> None:
    node.create("t", partitions=2)
    node.create("u", retention_bytes=str(10 * BATCH_BYTES))
    node.shrink_segments("t", 2 * BATCH_BYTES)
    for _ in range(5):
        node.append("t")
        node.append("u")
    node.partition("t").log.increment_log_start_offset(7)
    found = scrape_of(node)
    assert found.all_of("kafka_log_log_logendoffset") == {
        ("t", "0"): 25,
        ("t", "1"): 0,
        ("u", "0"): 25,
    }
    assert found.of("kafka_log_log_logstartoffset", "t", "0") == 7
    assert found.of("kafka_log_log_size", "t", "0") == 5 * BATCH_BYTES
    assert found.of("kafka_log_log_numlogsegments", "t", "0") == 3
    assert found.of("kafka_log_log_retentionsizeinpercent", "t", "0") == 0
    assert found.of("kafka_log_log_retentionsizeinpercent", "u", "0") == 50
    assert found.of("kafka_server_replicamanager_partitioncount") == 3
    assert found.of("kafka_server_replicamanager_leadercount") == 3


def set_replicas(node: Node, topic: str, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
    """Give partition 0 of a topic these replicas, led by its leader."""
    image = node.broker.image.topics[topic]
    before = image.partitions[0]
    epoch = before.partition_epoch
    after = replace(before, replicas=replicas, isr=isr, partition_epoch=epoch + 1)
    node.show(AlterPartition(topic, image.id, 0, epoch, after))


def test_partition_is_counted_by_how_many_replicas_are_in_sync(node: Node) -> None:
    for topic, isr in (("whole", (1, 2, 3)), ("at", (1, 2)), ("under", (1,))):
        node.create(topic, min_insync_replicas="2")
        set_replicas(node, topic, (NODE_ID, 2, 3), isr)
    node.create("alone", min_insync_replicas="2")
    found = scrape_of(node)
    cluster, manager = "kafka_cluster_partition_", "kafka_server_replicamanager_"
    assert found.all_of(f"{cluster}insyncreplicascount") == {
        ("whole", "0"): 3,
        ("at", "0"): 2,
        ("under", "0"): 1,
        ("alone", "0"): 1,
    }
    assert found.of(f"{cluster}replicascount", "under", "0") == 3
    for name, expected in (
        ("underreplicated", {"at", "under"}),
        ("underminisr", {"under"}),
        ("atminisr", {"at", "alone"}),  # the only replica is enough, whatever the setting says
    ):
        values = found.all_of(f"{cluster}{name}")
        assert {topic for (topic, _), value in values.items() if value} == expected, name
    assert found.of(f"{manager}underreplicatedpartitions") == 2
    assert found.of(f"{manager}underminisrpartitioncount") == 1
    assert found.of(f"{manager}atminisrpartitioncount") == 2


def test_partition_of_another_leader_counts_no_replicas(node: Node) -> None:
    node.create("t")
    set_replicas(node, "t", (NODE_ID, 2), (NODE_ID, 2))
    node.change_leader("t", 0, leader=2, leader_epoch=1)
    found = scrape_of(node)
    for name in ("insyncreplicascount", "replicascount", "underreplicated", "atminisr"):
        assert found.of(f"kafka_cluster_partition_{name}", "t", "0") == 0
    assert found.of("kafka_server_replicamanager_leadercount") == 0
    assert found.of("kafka_server_replicamanager_partitioncount") == 1


def test_open_transaction_holds_the_last_stable_offset_until_its_end(node: Node) -> None:
    node.create("t")
    node.append("t")
    node.append("t", producer=(7, 0, 0), transactional=True)
    node.append("t")
    found = scrape_of(node)
    assert found.of("kafka_cluster_partition_laststableoffsetlag", "t", "0") == 10
    assert found.all_of("kwire_partition_open_transactions") == {("t", "0"): 1}
    assert found.of("kafka_server_replicamanager_produceridcount") == 1
    node.end_transaction("t", 0, ControlType.COMMIT, 7)
    found = scrape_of(node)
    assert found.of("kafka_cluster_partition_laststableoffsetlag", "t", "0") == 0
    assert found.all_of("kwire_partition_open_transactions") == {}


def test_transaction_is_late_five_minutes_after_the_longest_timeout(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create("t")
    began_ms = 1_000_000
    node.append("t", timestamps=(began_ms,), producer=(7, 0, 0), transactional=True)
    late_ms = began_ms + node.broker.config.transaction_max_timeout_ms + 300_000
    for now_ms, count in ((late_ms, 0), (late_ms + 1, 1)):
        monkeypatch.setattr(node.broker, "now_ms", partial(int, now_ms))
        found = scrape_of(node)
        assert found.of("kafka_server_replicamanager_partitionswithlatetransactionscount") == count


def test_append_that_waits_for_followers_is_in_the_purgatory(node: Node) -> None:
    node.create("t")
    node.lag("t")
    node.append("t")
    done: list[int] = []
    node.partition("t").when_replicated(5, done.append)
    name = "kafka_server_delayedoperationpurgatory_numdelayedoperations"
    assert scrape_of(node).of(name, "Produce") == 1
    node.partition("t").advance_high_watermark(5, 0)
    assert done == [0]
    assert scrape_of(node).of(name, "Produce") == 0


def test_fetch_that_waits_in_two_partitions_counts_once_and_is_watched_twice(
    make_node: Callable[..., Node],
) -> None:
    node = make_node()
    node.create("t", partitions=2)

    class Waiter:
        def data_arrived(self, size_bytes: int) -> None: ...

        def partition_changed(self) -> None: ...

    waiter = Waiter()
    for index in (0, 1):
        node.partition("t", index).fetch_waiters.add(waiter)
    purgatory = "kafka_server_delayedoperationpurgatory_"
    found = scrape_of(node)
    assert found.of(f"{purgatory}numdelayedoperations", "Fetch") == 1
    assert found.of(f"{purgatory}purgatorysize", "Fetch") == 2


def test_log_of_a_failed_directory_has_no_log_metrics_and_is_counted(node: Node) -> None:
    node.create("t")
    node.append("t")
    (directory,) = node.logs.dirs.online_dirs
    node.logs.dirs.dir_failed(directory, OSError("the disk is gone"))
    found = scrape_of(node)
    assert found.all_of("kafka_log_log_size") == {}
    assert found.of("kafka_server_replicamanager_offlinereplicacount") == 1
    assert found.of("kafka_log_logmanager_offlinelogdirectorycount") == 1
    name = str(directory.path)
    assert found.of("kafka_log_logmanager_logdirectoryoffline", name) == 1


async def test_scrape_lets_other_work_go_on_between_steps_and_survives_a_deletion(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.server.metrics.collecting.partitions.PARTITIONS_PER_STEP", 1)
    node.create("t", partitions=2)
    node.create("u", partitions=2)
    scraper, samples = scraper_of(node.broker), Samples()
    steps = scraper.steps(samples)
    next(steps)
    node.delete("u")
    for _ in steps:
        pass
    assert Scraped(samples).of("kafka_server_replicamanager_partitioncount") == 2
    assert Scraped(samples).of("kafka_server_replicamanager_offlinereplicacount") == 0
    assert len(list(partitions.collect(node.broker, Samples()))) == 2
    assert (await scraper.scrape()).names() == samples.names()
