"""Cases of AlterConfigs: replacing all settings of a resource."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kwire.conformance.access import requests as subjects
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.describe_configs import BROKER, GROUP, TOPIC
from kwire.conformance.wire.cases.describe_configs import ask as describe
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ALTER_CONFIGS)


def access_request(version: int, topic_id: bytes) -> AlterConfigsRequest:
    """Return a validation that sets nothing for a topic, a broker and a group."""
    set_none = [
        AlterConfigsResource(kind, name, [])
        for kind, name in ((TOPIC, subjects.MISSING), (BROKER, "1"), (GROUP, subjects.GROUP))
    ]
    return AlterConfigsRequest(set_none, True)


def alter(
    kind: int, name: str, *configs: tuple[str, str | None], validate_only: bool = False
) -> AlterConfigsRequest:
    """Set all settings of one resource."""
    settings = [AlterableConfig(key, value) for key, value in configs]
    return AlterConfigsRequest([AlterConfigsResource(kind, name, settings)], validate_only)


@case("a topic's settings are replaced")
def replaced(stage: Stage) -> None:
    """Each request replaces all settings of a topic; the settings it leaves out return to
    defaults."""
    name = stage.topic(configs={"retention.ms": "1000"}).name
    shown = describe(TOPIC, name, "retention.ms", "segment.ms", synonyms=True)
    for configs in ([("segment.ms", "2000")], [("retention.ms", "5")], []):
        stage.send(alter(TOPIC, name, *configs))
        stage.await_cluster_changes()
        stage.send(shown, 4)


@case("only validated")
def validated(stage: Stage) -> None:
    """A valid and an invalid setting are validated; the topic keeps its old one."""
    name = stage.topic(configs={"retention.ms": "1000"}).name
    stage.send(alter(TOPIC, name, ("retention.ms", "5"), validate_only=True))
    stage.send(alter(TOPIC, name, ("retention.ms", "x"), validate_only=True))
    stage.send(describe(TOPIC, name, "retention.ms"), 4)


@case("values that are wrong")
def wrong(stage: Stage) -> None:
    """Values of a wrong type or out of range, null values and unknown names are refused."""
    name = stage.topic().name
    for key, value in (
        ("retention.ms", "x"),
        ("retention.ms", "-2"),
        ("retention.ms", None),
        ("retention.ms", ""),
        ("no.such.thing", "1"),
        ("", "1"),
        ("cleanup.policy", "shred"),
        ("compression.gzip.level", "100"),
    ):
        stage.send(alter(TOPIC, name, (key, value)))


@case("the same setting twice")
def setting_twice(stage: Stage) -> None:
    stage.send(alter(TOPIC, stage.topic().name, ("retention.ms", "1"), ("retention.ms", "2")))


@case("the same resource twice")
def twice(stage: Stage) -> None:
    """A request names the same topic twice."""
    name = stage.topic().name
    request = alter(TOPIC, name, ("retention.ms", "1"))
    request.resources += alter(TOPIC, name, ("retention.ms", "2")).resources
    stage.send(request)


@case("several, one of them unknown")
def several(stage: Stage) -> None:
    request = alter(TOPIC, stage.topic().name, ("retention.ms", "1"))
    request.resources += alter(TOPIC, stage.name("nothing"), ("retention.ms", "2")).resources
    stage.send(request)


@case("null and the same setting twice for a topic that is not there")
def wrong_unknown(stage: Stage) -> None:
    for kind, name in ((TOPIC, stage.name("nothing")), (0, "x")):
        stage.send(alter(kind, name, ("retention.ms", None)))
        stage.send(alter(kind, name, ("retention.ms", "1"), ("retention.ms", "2")))


@case("resources that are not there")
def unknown(stage: Stage) -> None:
    for kind, name in ((TOPIC, ""), (TOPIC, "a b"), (BROKER, "99"), (BROKER, "x"), (GROUP, "")):
        stage.send(alter(kind, name, ("retention.ms", "1"), validate_only=True))


@case("kinds that do not exist")
def kinds(stage: Stage) -> None:
    for kind in (0, 1, 3, 64, -1):
        stage.send(alter(kind, "x", ("retention.ms", "1")))


@case("a broker, only validated")
def broker(stage: Stage) -> None:
    _validate(stage, str(stage.broker.node_id))


@case("all brokers, only validated")
def all_brokers(stage: Stage) -> None:
    _validate(stage, "")


def _validate(stage: Stage, name: str) -> None:
    """Validate, without applying, settings of a broker: dynamic, invalid, read-only and unknown."""
    for key, value in (
        ("log.cleaner.threads", "2"),
        ("log.cleaner.threads", "x"),
        ("node.id", "5"),
        ("no.such.thing", "5"),
    ):
        stage.send(alter(BROKER, name, (key, value), validate_only=True))


case.requests({"no resources": lambda stage: AlterConfigsRequest([])})
