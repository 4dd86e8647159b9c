"""Kafka Streams sends the description of its topology to the broker, which keeps it (KIP-1331)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
)
from kwire.conformance.topology_keeper import SETTING
from kwire.conformance.wire.stage import SETUP
from tests.clients.librdkafka import create_topic
from tests.clients.programs.test_streams import QUICK, Application, compiled
from tests.clients.waiting import eventually
from tests.conftest import BrokerFactory
from tests.streams_stage import stage_on

__all__ = ["compiled"]

pytestmark = [pytest.mark.java, pytest.mark.slow]

PLUGIN = {SETTING: "kwire.coordinators.runtime.description_plugins.TopologyFile"}
AVAILABLE, NOT_STORED = 3, 1
SOURCE, PROCESSOR, SINK = 1, 2, 3


def test_java_application_sends_its_description_which_goes_with_its_group(
    broker_factory: BrokerFactory, unique: str, compiled: Path, tmp_path: Path
) -> None:
    broker = broker_factory({**QUICK, **PLUGIN})
    application = Application(broker.bootstrap, unique, "streams", compiled, tmp_path)
    for topic in (application.source, application.target):
        create_topic(broker.bootstrap, topic, 1)
    stage = stage_on(broker.bootstrap, unique)

    def described() -> DescribedGroup:
        group: DescribedGroup = stage.ask(
            StreamsGroupDescribeRequest([unique], False, True)
        ).groups[0]
        return group

    instance = application.start("first")
    try:
        eventually(lambda: described().topology_description_status, AVAILABLE)
        group = described()
        instance.stop()
    finally:
        application.kill()
    description = group.topology_description
    assert description is not None
    assert group.topology is not None
    ids = [each.subtopology_id for each in group.topology.subtopologies or ()]
    assert [each.subtopology_id for each in description.subtopologies] == ids
    nodes = [node for each in description.subtopologies for node in each.nodes]
    read = {topic for node in nodes for topic in node.source_topics if node.node_type == SOURCE}
    written = {node.sink_topic for node in nodes if node.node_type == SINK}
    stores = {store for node in nodes for store in node.stores if node.node_type == PROCESSOR}
    assert application.source in read
    assert application.target in written
    assert stores == {"counts"}
    names = {node.name for node in nodes}
    assert {name for node in nodes for name in node.successors} <= names
    eventually(lambda: len(described().members), 0)
    assert described().topology_description_status == AVAILABLE
    assert stage.ask(DeleteGroupsRequest([unique])).results[0].error_code == 0
    assert described().topology_description is None
    stage.close_connection(SETUP)
