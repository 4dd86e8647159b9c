"""Cases of DescribeConfigs: topics, brokers, groups, and unknown kinds of resources."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kwire.conformance.access import requests as subjects
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DESCRIBE_CONFIGS)


def access_request(version: int, topic_id: bytes) -> DescribeConfigsRequest:
    """Return a request for an unknown setting of a topic, of all brokers and of a group."""
    return DescribeConfigsRequest(
        [
            DescribeConfigsResource(kind, name, ["no.such"])
            for kind, name in ((TOPIC, subjects.TOPIC), (BROKER, ""), (GROUP, subjects.GROUP))
        ]
    )


TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def ask(
    kind: int, name: str, *keys: str, synonyms: bool = False, documented: bool = False
) -> DescribeConfigsRequest:
    """Request all settings of one resource, or only those in `keys`."""
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    return DescribeConfigsRequest([resource], synonyms, documented)


@case("a topic")
def topic(stage: Stage) -> None:
    """All settings of a topic are described, with and without their synonyms."""
    configs = {"retention.ms": "1000", "cleanup.policy": "compact"}
    name = stage.topic(configs=configs).name
    stage.send(ask(TOPIC, name))
    stage.send(ask(TOPIC, name, synonyms=True))


@case("some settings of a topic")
def some(stage: Stage) -> None:
    """Named settings are described; unknown names are left out, and no names give none."""
    name = stage.topic(configs={"retention.ms": "1000"}).name
    stage.send(ask(TOPIC, name, "retention.ms", "no.such.thing", "segment.bytes", synonyms=True))
    empty = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, name, [])])
    stage.send(empty)


@case("documentation of a topic's settings", since=3)
def documentation(stage: Stage) -> None:
    name = stage.topic().name
    stage.send(ask(TOPIC, name, "retention.ms", documented=True))


@case("some settings of a broker")
def broker(stage: Stage) -> None:
    """Settings of one broker and of all brokers (name "") are described with synonyms."""
    name = str(stage.broker.node_id)
    keys = ("log.retention.ms", "num.io.threads", "log.cleaner.threads", "background.threads")
    stage.send(ask(BROKER, name, *keys, synonyms=True))
    stage.send(ask(BROKER, "", *keys, synonyms=True))


@case("all settings of a broker")
def broker_all(stage: Stage) -> None:
    stage.send(ask(BROKER, str(stage.broker.node_id), synonyms=True))


@case("settings of the loggers")
def loggers(stage: Stage) -> None:
    for name in (str(stage.broker.node_id), "", "99"):
        stage.send(ask(LOGGER, name, "no.such.logger"))


@case("the names of a broker's settings")
def broker_names(stage: Stage) -> None:
    stage.send(ask(BROKER, ""))


@case("brokers that are not this one")
def other_brokers(stage: Stage) -> None:
    for name in ("99", "x", "-1"):
        stage.send(ask(BROKER, name))


@case("a group")
def group(stage: Stage) -> None:
    stage.send(ask(GROUP, stage.name("g"), synonyms=True))
    stage.send(ask(GROUP, ""))


@case("client metrics")
def client_metrics(stage: Stage) -> None:
    stage.send(ask(CLIENT_METRICS, stage.name("m")))
    stage.send(ask(CLIENT_METRICS, ""))


@case("kinds that do not exist")
def kinds(stage: Stage) -> None:
    for kind in (0, 1, 3, 64, -1):
        stage.send(ask(kind, "x"))


@case("topics that are not there")
def unknown(stage: Stage) -> None:
    for name in (stage.name("nothing"), "", "a b", "n" * 250):
        stage.send(ask(TOPIC, name))


@case("several, one of them twice")
def several(stage: Stage) -> None:
    """One request has an existing topic twice, and a missing topic."""
    name = stage.topic().name
    request = ask(TOPIC, name, "retention.ms")
    request.resources += ask(TOPIC, stage.name("nothing")).resources
    request.resources += ask(TOPIC, name, "segment.ms").resources
    stage.send(request)


case.requests({"no resources": lambda stage: DescribeConfigsRequest([])})
