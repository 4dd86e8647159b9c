"""Cases of IncrementalAlterConfigs: set, delete, append, subtract."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.conformance.access import requests as subjects
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.describe_configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kwire.conformance.wire.cases.describe_configs import ask as describe
from kwire.conformance.wire.cases.turns import in_turn
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.INCREMENTAL_ALTER_CONFIGS)


def access_request(version: int, topic_id: bytes) -> IncrementalAlterConfigsRequest:
    """Return a validation that sets nothing for a topic, a broker and a group."""
    set_none = [
        AlterConfigsResource(kind, name, [])
        for kind, name in ((TOPIC, subjects.MISSING), (BROKER, "1"), (GROUP, subjects.GROUP))
    ]
    return IncrementalAlterConfigsRequest(set_none, True)


SET, DELETE, APPEND, SUBTRACT = range(4)
MIN_ISR = "min.insync.replicas"


def alter(
    kind: int, name: str, *configs: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Return changes of one resource, each given as name, operation and value."""
    entries = [AlterableConfig(*config) for config in configs]
    resource = AlterConfigsResource(kind, name, entries)
    return IncrementalAlterConfigsRequest([resource], validate_only)


@case("each operation")
def operations(stage: Stage) -> None:
    """Set, delete, append and subtract change a topic's settings; each result is read back.

    Operations are repeated to show that the second one changes nothing.
    """
    name = stage.topic(configs={"retention.ms": "1000"}).name
    shown = describe(TOPIC, name, "retention.ms", "cleanup.policy", synonyms=True)
    for change in (
        ("retention.ms", SET, "5"),
        ("retention.ms", DELETE, None),
        ("retention.ms", DELETE, "5"),
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", SUBTRACT, "delete"),
        ("cleanup.policy", SUBTRACT, "delete"),
        ("cleanup.policy", SUBTRACT, "compact"),
        ("cleanup.policy", APPEND, "compact,delete"),
        ("cleanup.policy", SET, ""),
    ):
        stage.send(alter(TOPIC, name, change))
        stage.await_cluster_changes()
        stage.send(shown, 4)


@case("min.insync.replicas of all brokers")
def min_insync_replicas(stage: Stage) -> None:
    """The value that a new cluster starts with (KIP-966)."""
    node = str(stage.broker.node_id)
    for name in ("", node):
        stage.send(describe(BROKER, name, MIN_ISR, synonyms=True), 4)
    for name, change in (
        ("", (MIN_ISR, DELETE, None)),
        ("", (MIN_ISR, SET, "2")),
        ("", (MIN_ISR, SET, "0")),
        ("", (MIN_ISR, APPEND, "1")),
        (node, (MIN_ISR, DELETE, None)),
        (node, (MIN_ISR, SET, "2")),
        (node, ("no.such", SUBTRACT, "2")),
    ):
        stage.send(alter(BROKER, name, change, validate_only=True))


@case("what cannot be done")
def wrong(stage: Stage) -> None:
    """Operations that a setting does not support, invalid values and unknown names are refused."""
    name = stage.topic().name
    for change in (
        ("retention.ms", APPEND, "5"),
        ("retention.ms", SUBTRACT, "5"),
        ("retention.ms", SET, None),
        ("retention.ms", SET, "x"),
        ("retention.ms", SET, "-2"),
        ("cleanup.policy", APPEND, None),
        ("cleanup.policy", APPEND, "shred"),
        ("no.such.thing", SET, "1"),
        ("no.such.thing", DELETE, None),
        ("no.such.thing", APPEND, "1"),
        ("", SET, "1"),
    ):
        stage.send(alter(TOPIC, name, change))


@case("operations that do not exist")
def no_operation(stage: Stage) -> None:
    name = stage.topic().name
    for operation in (4, -1):
        stage.send(alter(TOPIC, name, ("retention.ms", operation, "5")))


@case("null and unknown operations for a topic that is not there")
def wrong_unknown(stage: Stage) -> None:
    """Invalid changes of a missing topic and of an unknown kind of resource (0): which error
    wins."""
    for change in (
        ("retention.ms", SET, None),
        ("no.such.thing", SET, "1"),
        ("", DELETE, None),
        ("retention.ms", APPEND, "1"),
    ):
        stage.send(alter(TOPIC, stage.name("nothing"), change))
        stage.send(alter(0, "x", change))


@case("several settings, one of them wrong")
def one_wrong(stage: Stage) -> None:
    """One invalid change of a resource prevents its other changes."""
    name = stage.topic().name
    changes = (("retention.ms", SET, "5"), ("segment.ms", SET, "x"))
    stage.send(alter(TOPIC, name, *changes))
    stage.await_cluster_changes()
    stage.send(describe(TOPIC, name, "retention.ms"), 4)


@case("the same setting twice")
def setting_twice(stage: Stage) -> None:
    name = stage.topic().name
    stage.send(alter(TOPIC, name, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")))
    stage.send(alter(TOPIC, name, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)))


@case("only validated")
def validated(stage: Stage) -> None:
    """A valid and an invalid change are validated; the topic keeps its setting."""
    name = stage.topic().name
    stage.send(alter(TOPIC, name, ("retention.ms", SET, "5"), validate_only=True))
    stage.send(alter(TOPIC, name, ("retention.ms", SET, "x"), validate_only=True))
    stage.await_cluster_changes()
    stage.send(describe(TOPIC, name, "retention.ms"), 4)


@case("the same resource twice")
def twice(stage: Stage) -> None:
    """A request names the same topic twice."""
    name = stage.topic().name
    request = alter(TOPIC, name, ("retention.ms", SET, "1"))
    request.resources += alter(TOPIC, name, ("segment.ms", SET, "2")).resources
    stage.send(request)


@case("several, one of them unknown")
def several(stage: Stage) -> None:
    """A request has an existing and a missing topic, each with its own result."""
    request = alter(TOPIC, stage.topic().name, ("retention.ms", SET, "1"))
    lost = alter(TOPIC, stage.name("nothing"), ("retention.ms", SET, "2"))
    request.resources += lost.resources
    stage.send(request)


@case("resources that are not there")
def unknown(stage: Stage) -> None:
    for kind, name in ((TOPIC, ""), (TOPIC, "a b"), (BROKER, "99"), (BROKER, "x"), (GROUP, "")):
        stage.send(alter(kind, name, ("retention.ms", SET, "1"), validate_only=True))


@case("kinds that do not exist")
def kinds(stage: Stage) -> None:
    for kind in (0, 1, 3, 64, -1):
        stage.send(alter(kind, "x", ("retention.ms", SET, "1")))


@case("a broker, only validated")
def broker(stage: Stage) -> None:
    """Settings of one broker and of all brokers (name "") are validated and not applied."""
    for name in ("", str(stage.broker.node_id)):
        for change in (
            ("log.cleaner.threads", SET, "2"),
            ("log.cleaner.threads", SET, "x"),
            ("log.cleaner.threads", DELETE, None),
            ("node.id", SET, "5"),
            ("no.such.thing", SET, "5"),
        ):
            stage.send(alter(BROKER, name, change, validate_only=True))


@case("a group")
def group(stage: Stage) -> None:
    """A group's session timeout is set, set to invalid values and deleted; each step is read
    back."""
    name = stage.name("g")
    for change in (
        ("consumer.session.timeout.ms", SET, "50000"),
        ("consumer.session.timeout.ms", SET, "1"),
        ("consumer.session.timeout.ms", SET, "x"),
        ("no.such.thing", SET, "x"),
        ("consumer.session.timeout.ms", DELETE, None),
    ):
        stage.send(alter(GROUP, name, change))
        stage.await_cluster_changes()
        stage.send(describe(GROUP, name, "consumer.session.timeout.ms"), 4)


@case("configs of a group that only 4.4 has")
def group_of_4_4(stage: Stage) -> None:
    """Each config is set, valid or not, and the group is described with all its configs.

    Internal configs can be set, and only then are they described.
    """
    name = stage.name("g")
    for change in (
        ("errors.deadletterqueue.copy.record.enable", SET, "yes"),
        ("errors.deadletterqueue.copy.record.enable", SET, "true"),
        ("errors.deadletterqueue.topic.name", SET, "__x"),
        ("errors.deadletterqueue.topic.name", SET, "a topic"),
        ("streams.assignor.name", SET, "sticky"),
        ("streams.rack.aware.assignment.tags", SET, "zone,,rack"),
        ("streams.rack.aware.assignment.tags", SET, "zone,rack"),
        ("streams.rack.aware.assignment.tags", SUBTRACT, "rack"),
        ("consumer.assignor.offload.enable", SET, "false"),
        ("streams.acceptable.recovery.lag", SET, "-1"),
        ("streams.num.warmup.replicas", SET, "3"),
        ("streams.task.offset.interval.ms", SET, "0"),
        ("streams.assignor.name", DELETE, None),
    ):
        stage.send(alter(GROUP, name, change))
        stage.await_cluster_changes()
        stage.send(describe(GROUP, name, synonyms=True), 4)


@case("settings of a broker that only 4.4 has, only validated")
def broker_of_4_4(stage: Stage) -> None:
    """The settings are validated for one broker and for all brokers, and not applied."""
    for name in ("", str(stage.broker.node_id)):
        for change in (
            ("max.decompressed.message.bytes", SET, "0"),
            ("max.decompressed.message.bytes", SET, "2147483639"),
            ("max.decompressed.message.bytes", SET, "2147483640"),
            ("log.remote.copy.lag.bytes", SET, "-2"),
            ("log.remote.copy.lag.ms", SET, "1000"),
            ("errors.deadletterqueue.topic.name.prefix", SET, ""),
            ("errors.deadletterqueue.auto.create.topics.enable", SET, "true"),
            ("group.consumer.assignor.offload.enable", SET, "false"),
            ("group.streams.assignors", SET, "sticky"),
            ("group.streams.num.warmup.replicas", SET, "3"),
            ("sasl.oauthbearer.allow.unverified.audience", SET, "true"),
        ):
            stage.send(alter(BROKER, name, change, validate_only=True))


@case("retention of tiered logs, only validated")
def tiered_retention(stage: Stage) -> None:
    """The local part of a log is no larger than the log, and a segment is copied before it goes.

    Each change is of all brokers.
    """
    total, local, lag = "log.retention.ms", "log.local.retention.ms", "log.remote.copy.lag.ms"
    for values in (
        {local: "-1"},
        {local: "-1", total: "-1"},
        {local: "2000", total: "2000"},
        {local: "2001", total: "2000"},
        {lag: "1000", total: "-1"},
        {lag: "1000", total: "1000"},
        {lag: "1000", total: "999"},
        {lag: "1000", local: "0"},
        {lag: "-1", local: "0"},
    ):
        for unit in ("ms", "bytes"):
            changes = [(f"{name.removesuffix('ms')}{unit}", SET, values[name]) for name in values]
            stage.send(alter(BROKER, "", *changes, validate_only=True))


@case("configs of a topic that only 4.4 has")
def topic_of_4_4(stage: Stage) -> None:
    """Each config is set, valid or not, and read back."""
    name = stage.topic(configs={"retention.ms": "1000"}).name
    keys = (
        "errors.deadletterqueue.group.enable",
        "max.decompressed.message.bytes",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
    )
    for change in (
        ("errors.deadletterqueue.group.enable", SET, "yes"),
        ("errors.deadletterqueue.group.enable", SET, "true"),
        ("max.decompressed.message.bytes", SET, "0"),
        ("max.decompressed.message.bytes", SET, "100"),
        ("max.decompressed.message.bytes", SET, "2147483640"),
        ("remote.copy.lag.bytes", SET, "-2"),
        ("remote.copy.lag.bytes", SET, "5"),
        ("remote.copy.lag.ms", SET, "-2"),
        ("remote.copy.lag.ms", SET, "5000"),
    ):
        stage.send(alter(TOPIC, name, change))
        stage.await_cluster_changes()
        stage.send(describe(TOPIC, name, *keys, synonyms=True), 4)


@case("client metrics")
@in_turn
def client_metrics(stage: Stage) -> None:
    """A telemetry subscription is changed with valid and invalid intervals and patterns.

    Each step is read back.
    """
    name = stage.name("m")
    for change in (
        ("interval.ms", SET, "1000"),
        ("interval.ms", SET, "1"),
        ("metrics", SET, "a,b"),
        ("match", SET, "nonsense"),
        ("match", SET, "client_id=a=b"),
        ("match", SET, "client_id=("),
        ("match", SET, "client_id==, client_id=a"),
        ("match", SET, "client_id=a=, client_source_port=9+"),
        ("match", DELETE, None),
        ("no.such.thing", SET, "x"),
        ("interval.ms", DELETE, None),
        ("metrics", DELETE, None),
    ):
        stage.send(alter(CLIENT_METRICS, name, change))
        stage.await_cluster_changes()
        stage.send(describe(CLIENT_METRICS, name), 4)


case.requests({"no resources": lambda stage: IncrementalAlterConfigsRequest([])})
