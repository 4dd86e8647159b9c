"""The metrics of the cluster: numbers of the whole, and counts of what changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.cluster.membership.alone import LoneMembership
from kwire.cluster.metadata.changes import AlterPartition, RegisterBroker, SetController
from kwire.cluster.metadata.features import SUPPORTED
from kwire.cluster.metadata.image import BrokerImage, PartitionImage
from kwire.server.metrics.collecting import cluster
from tests.requests.handlers.node import NODE_ID, Node
from tests.server.metrics.scraping import scrape, scraper_of

CONTROLLER = "kafka_controller_kafkacontroller_"


def change(node: Node, topic: str, **fields: object) -> None:
    """Change the state of partition 0 of a topic."""
    image = node.broker.image.topics[topic]
    before = image.partitions[0]
    epoch = before.partition_epoch
    after: PartitionImage = replace(before, partition_epoch=epoch + 1, **fields)  # type: ignore[arg-type]  # fields by name
    node.show(AlterPartition(topic, image.id, 0, epoch, after))


def test_controller_counts_brokers_topics_and_partitions(node: Node) -> None:
    node.create("t", partitions=3)
    node.create("u")
    change(node, "u", leader=-1, leader_epoch=1)
    change(node, "t", replicas=(2, NODE_ID), isr=(2, NODE_ID))
    node.show(RegisterBroker(BrokerImage(5, ())))
    found = scrape(scraper_of(node.broker))
    expected = {
        "activecontrollercount": 1,
        "activebrokercount": len(node.broker.image.brokers),
        "fencedbrokercount": 0,
        "globaltopiccount": 2,
        "globalpartitioncount": 4,
        "offlinepartitionscount": 1,
        "preferredreplicaimbalancecount": 1,
    }
    assert {name: found.of(f"{CONTROLLER}{name}") for name in expected} == expected


def test_partitions_without_a_leader_are_named_up_to_a_limit(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create("t", partitions=2)
    scraper = scraper_of(node.broker)
    assert scrape(scraper).all_of("kwire_partition_offline") == {}
    node.create("u")
    for topic in ("t", "u"):
        change(node, topic, leader=-1, leader_epoch=1)
    named = {("t", "0"): 1, ("u", "0"): 1}
    assert scrape(scraper).all_of("kwire_partition_offline") == named
    monkeypatch.setattr(cluster, "OFFLINE_NAMED_MAX", 1)
    assert len(scrape(scraper).all_of("kwire_partition_offline")) == 1


def test_broker_that_is_not_the_controller_gives_0(node: Node) -> None:
    node.create("t")

    class Follower(LoneMembership):
        is_controller = False

    node.broker.membership = Follower(node.broker.node)
    found = scrape(scraper_of(node.broker))
    for name in ("activecontrollercount", "globaltopiccount", "globalpartitioncount"):
        assert found.of(f"{CONTROLLER}{name}") == 0


def test_partition_is_reassigned_while_replicas_are_added_or_removed(node: Node) -> None:
    name = "kafka_server_replicamanager_reassigningpartitions"
    node.create("t")
    node.create("u")
    scraper = scraper_of(node.broker)
    assert scrape(scraper).of(name) == 0
    change(node, "t", replicas=(NODE_ID, 2), adding=(2,))
    change(node, "u", replicas=(NODE_ID, 2), removing=(2,))
    assert scrape(scraper).of(name) == 2


def test_changes_of_isrs_are_counted_where_the_partition_is_led(node: Node) -> None:
    node.create("t")
    node.create("elsewhere")
    change(node, "t", replicas=(NODE_ID, 2, 3), isr=(NODE_ID, 2, 3))
    change(node, "elsewhere", replicas=(NODE_ID, 2), isr=(NODE_ID, 2), leader=2, leader_epoch=1)
    scraper = scraper_of(node.broker)
    change(node, "t", isr=(NODE_ID,))
    change(node, "t", isr=(NODE_ID, 2))
    change(node, "t", isr=(NODE_ID, 3))
    change(node, "elsewhere", isr=(2,))
    node.create("new")
    found = scrape(scraper)
    assert found.of("kafka_server_replicamanager_isrshrinks_total") == 2
    assert found.of("kafka_server_replicamanager_isrexpands_total") == 2


def test_elections_are_counted_and_those_of_a_replica_that_is_not_in_sync(node: Node) -> None:
    node.create("t")
    change(node, "t", replicas=(NODE_ID, 2, 3), isr=(NODE_ID, 2))
    scraper = scraper_of(node.broker)
    change(node, "t", leader=2, leader_epoch=1)
    change(node, "t", leader=-1, leader_epoch=2)
    change(node, "t", leader=3, leader_epoch=3, isr=(3,))
    found = scrape(scraper)
    assert found.of("kwire_leader_elections_total") == 2
    assert found.of("kafka_controller_controllerstats_uncleanleaderelections_total") == 1


def test_other_controllers_are_counted(node: Node) -> None:
    scraper = scraper_of(node.broker)
    before = node.broker.image.controller_id
    for epoch, controller in ((1, 5), (2, -1), (3, 6)):
        node.show(SetController(before, controller, epoch))
        before = controller
    found = scrape(scraper)
    assert found.of(f"{CONTROLLER}newactivecontrollerscount") == 2
    assert found.of("kwire_controller_epoch") == 3
    assert found.of("kafka_server_metadataloader_currentcontrollerid") == 6


def test_features_are_given_with_their_levels(node: Node) -> None:
    found = scrape(scraper_of(node.broker))
    level = found.of("kafka_server_metadataloader_finalizedlevel", "metadataVersion")
    assert level == found.of("kafka_server_metadataloader_currentmetadataversion")
    highest = found.all_of("kafka_server_node_metrics_maximum_supported_level")
    assert highest == {(name.replace(".", "-"),): high for name, (_, high) in SUPPORTED.items()}
    assert level == SUPPORTED["metadata.version"][1]
