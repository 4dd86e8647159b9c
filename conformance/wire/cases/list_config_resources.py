"""Cases of ListConfigResources: the resources that have their own settings."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.list_config_resources import ListConfigResourcesRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.describe_configs import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LOGGER,
    TOPIC,
)
from kwire.conformance.wire.cases.incremental_alter_configs import DELETE, SET, alter
from kwire.conformance.wire.cases.turns import in_turn
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.LIST_CONFIG_RESOURCES)


def access_request(version: int, topic_id: bytes) -> ListConfigResourcesRequest:
    return ListConfigResourcesRequest()


@case("all")
@in_turn
def everything(stage: Stage) -> None:
    """All resources with their own settings are listed: topics, groups, client metrics."""
    stage.topic(configs={"retention.ms": "1000"})
    stage.topic("plain")
    group = alter(GROUP, stage.name("g"), ("consumer.session.timeout.ms", SET, "50000"))
    metrics = alter(CLIENT_METRICS, stage.name("m"), ("interval.ms", SET, "1000"))
    for request in (group, metrics):
        stage.ask(request)
    stage.await_cluster_changes()
    stage.send(ListConfigResourcesRequest())
    stage.ask(alter(CLIENT_METRICS, stage.name("m"), ("interval.ms", DELETE, None)))


@case("by kind", since=1)
def by_kind(stage: Stage) -> None:
    stage.topic()
    for kinds in ([TOPIC], [BROKER], [LOGGER], [CLIENT_METRICS], [GROUP], [TOPIC, TOPIC, GROUP]):
        stage.send(ListConfigResourcesRequest(kinds))


@case("kinds that do not exist", since=1)
def unknown(stage: Stage) -> None:
    for kind in (0, 1, 3, 64, -1):
        stage.send(ListConfigResourcesRequest([kind]))
    stage.send(ListConfigResourcesRequest([TOPIC, 99]))
