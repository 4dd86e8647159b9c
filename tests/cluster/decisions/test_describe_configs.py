"""DescribeConfigs and ListConfigResources; expected answers are Apache Kafka 4.3.1's."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kwire.codecs.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.cluster.decisions.client import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LOGGER,
    SET,
    TOPIC,
)
from tests.cluster.decisions.conftest import OpenAdmin

INVALID_REQUEST = ErrorCode.INVALID_REQUEST
TOPIC_CONFIG, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC_BROKER, DEFAULT = range(1, 6)

Told = tuple[str, str | None, int]


def synonyms(config: DescribeConfigsResourceResult) -> list[Told]:
    return [(each.name, each.value, each.source) for each in config.synonyms]


# -- DescribeConfigs


@pytest.mark.parametrize("version", range(1, 5))
async def test_describe_returns_all_configs_of_a_topic(open_admin: OpenAdmin, version: int) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        result = await admin.describe(TOPIC, "a", version=version)
        assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")
        configs = {config.name: config for config in result.configs}
        assert len(configs) == 37
        retention = configs["retention.ms"]
        assert (retention.value, retention.config_source) == ("604800000", DEFAULT)
        assert (retention.read_only, retention.is_sensitive) == (False, False)
        assert retention.config_type == (5 if version >= 3 else 0)
        assert retention.synonyms == []
        assert configs["cleanup.policy"].value == "delete"
        assert configs["follower.replication.throttled.replicas"].value == ""


async def test_describe_returns_only_the_named_configs(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        some = await admin.describe(TOPIC, "a", "segment.ms", "nope", "retention.ms", "segment.ms")
        assert [config.name for config in some.configs] == ["retention.ms", "segment.ms"]
        request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "a", [])])
        response = await admin.ask(request, 4, DescribeConfigsResponse)
        assert len(response.results[0].configs) == 37, "an empty list is all"


async def test_synonyms_name_the_sources_of_each_value(open_admin: OpenAdmin) -> None:
    settings = {
        "log.retention.hours": "5",
        "log.roll.ms": "7200000",
        "log.roll.hours": "3",
        "compression.type": "gzip",
        "ssl.key.password": "secret",
    }
    async with open_admin(settings) as admin:
        await admin.make("a")
        await admin.alter(TOPIC, "a", ("compression.type", SET, "lz4"), ("segment.ms", SET, "5"))
        own = await admin.config(TOPIC, "a", "segment.ms", synonyms=True)
        assert synonyms(own) == [
            ("segment.ms", "5", TOPIC_CONFIG),
            ("log.roll.ms", "7200000", STATIC_BROKER),
            ("log.roll.hours", "3", STATIC_BROKER),
            ("log.roll.hours", "168", DEFAULT),
        ]
        retention = await admin.config(TOPIC, "a", "retention.ms", synonyms=True)
        assert (retention.value, retention.config_source) == ("18000000", DEFAULT)
        assert synonyms(retention) == []

        await admin.alter(BROKER, "1", ("log.retention.ms", SET, "1234567"))
        await admin.alter(
            BROKER, "", ("log.retention.ms", SET, "7654321"), ("compression.type", SET, "zstd")
        )
        retention = await admin.config(TOPIC, "a", "retention.ms", synonyms=True)
        assert (retention.value, retention.config_source) == ("1234567", DYNAMIC_BROKER)
        assert synonyms(retention) == [
            ("log.retention.ms", "1234567", DYNAMIC_BROKER),
            ("log.retention.ms", "7654321", DYNAMIC_DEFAULT),
            ("log.retention.hours", "5", STATIC_BROKER),
            ("log.retention.hours", "168", DEFAULT),
        ]
        compression = await admin.config(TOPIC, "a", "compression.type", synonyms=True)
        assert synonyms(compression) == [
            ("compression.type", "lz4", TOPIC_CONFIG),
            ("compression.type", "zstd", DYNAMIC_DEFAULT),
            ("compression.type", "gzip", STATIC_BROKER),
            ("compression.type", "producer", DEFAULT),
        ]
        partition = admin.broker.hosted.get("a", 0)
        assert partition is not None
        config = partition.log.config
        assert (config.retention_ms, config.segment_ms, config.compression_type) == (
            1_234_567,
            5,
            "lz4",
        )


async def test_describe_returns_all_broker_configs_without_secrets(open_admin: OpenAdmin) -> None:
    settings = {"ssl.key.password": "secret", "log.retention.bytes": "7777"}
    async with open_admin(settings) as admin:
        configs = {each.name: each for each in (await admin.describe(BROKER, "1")).configs}
        assert len(configs) == 350
        secret = configs["ssl.key.password"]
        assert (secret.value, secret.is_sensitive, secret.config_source) == (None, True, 4)
        node_id = configs["node.id"]
        assert (node_id.value, node_id.read_only) == ("1", True)
        assert configs["log.retention.bytes"].config_source == STATIC_BROKER
        assert configs["log.retention.bytes"].read_only is False
        assert configs["log.retention.ms"].value is None
        assert configs["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"
        assert configs["group.consumer.assignors"].value == "uniform,range"
        hidden = await admin.config(BROKER, "1", "ssl.key.password", synonyms=True)
        assert synonyms(hidden) == [("ssl.key.password", None, STATIC_BROKER)]
        everyone = (await admin.describe(BROKER, "")).configs
        assert [each.name for each in everyone] == ["min.insync.replicas"]


@pytest.mark.parametrize(
    ("kind", "name", "error", "message"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            TOPIC,
            "",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            BROKER,
            "7",
            INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 7",
        ),
        (BROKER, "x", INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "7", INVALID_REQUEST, "Unexpected broker id, expected 1 but received 7"),
        (LOGGER, "", INVALID_REQUEST, "Broker id must not be empty"),
        (GROUP, "", INVALID_REQUEST, "Group name must not be empty"),
        (
            CLIENT_METRICS,
            "",
            INVALID_REQUEST,
            "Client metrics subscription name must not be empty",
        ),
        (
            99,
            "x",
            INVALID_REQUEST,
            "This most likely occurs because of a request being malformed by the client library "
            "or the message was sent to an incompatible broker. See the broker logs for more "
            "details.",
        ),
    ],
)
async def test_describe_refuses_unknown_resources(
    open_admin: OpenAdmin, kind: int, name: str, error: ErrorCode, message: str
) -> None:
    async with open_admin() as admin:
        result = await admin.describe(kind, name)
        assert (result.error_code, result.error_message) == (error, message)
        assert (result.resource_type, result.resource_name) == (kind, name)
        assert result.configs == []


async def test_groups_and_subscriptions_are_described_without_existing(
    open_admin: OpenAdmin,
) -> None:
    async with open_admin({"group.consumer.session.timeout.ms": "50000"}) as admin:
        group = await admin.describe(GROUP, "g", synonyms=True)
        configs = {config.name: config for config in group.configs}
        assert len(configs) == 21
        session = configs["consumer.session.timeout.ms"]
        assert (session.value, session.config_source) == ("50000", STATIC_BROKER)
        assert synonyms(session) == [
            ("group.consumer.session.timeout.ms", "50000", STATIC_BROKER),
            ("group.consumer.session.timeout.ms", "45000", DEFAULT),
        ]
        assert synonyms(configs["share.auto.offset.reset"]) == [
            ("share.auto.offset.reset", "latest", DEFAULT)
        ]
        metrics = await admin.describe(CLIENT_METRICS, "m", synonyms=True)
        assert [(each.name, each.value, each.synonyms) for each in metrics.configs] == [
            ("interval.ms", "300000", []),
            ("match", "", []),
            ("metrics", "", []),
        ]


@pytest.mark.parametrize("version", [3, 4])
async def test_documentation_is_returned_only_on_request(
    open_admin: OpenAdmin, version: int
) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        resources = [
            DescribeConfigsResource(TOPIC, "a", ["retention.ms"]),
            DescribeConfigsResource(BROKER, "1", ["log.retention.ms"]),
            DescribeConfigsResource(LOGGER, "1", ["root"]),
        ]
        for asked in (True, False):
            request = DescribeConfigsRequest(resources, False, asked)
            results = (await admin.ask(request, version, DescribeConfigsResponse)).results
            topic, broker, logger = (result.configs[0].documentation for result in results)
            expected = "Age above which segments are deleted; -1 means no limit." if asked else None
            assert topic == broker == expected
            assert logger == ""


async def test_documentation_says_which_configs_have_no_effect(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        names = ["num.io.threads", "log.local.retention.ms"]
        resources = [
            DescribeConfigsResource(BROKER, "1", names),
            DescribeConfigsResource(TOPIC, "a", ["local.retention.ms"]),
            DescribeConfigsResource(CLIENT_METRICS, "m", ["match"]),
        ]
        request = DescribeConfigsRequest(resources, False, True)
        results = (await admin.ask(request, 4, DescribeConfigsResponse)).results
        local = "How long tiered storage keeps segments on the local disk; -2 means retention.ms."
        assert [each.documentation for result in results for each in result.configs] == [
            f"Not served yet: tiered storage. {local}",
            "No meaning here: one event loop does all the work.",
            f"Not served yet: tiered storage. {local}",
            "The clients that the subscription is for, as name=regex. A client must match all of "
            "them.",
        ]


# -- ListConfigResources


async def test_resources_with_configs_are_listed_by_type(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b")
        await admin.alter(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
        await admin.alter(CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))

        async def listed(*kinds: int, version: int = 1) -> set[tuple[str, int]] | ErrorCode:
            request = ListConfigResourcesRequest(list(kinds))
            response = await admin.ask(request, version, ListConfigResourcesResponse)
            if response.error_code:
                assert response.config_resources == []
                return ErrorCode(response.error_code)
            return {(each.resource_name, each.resource_type) for each in response.config_resources}

        topics, brokers = {("a", TOPIC), ("b", TOPIC)}, {("1", BROKER)}
        groups, metrics = {("g", GROUP)}, {("m", CLIENT_METRICS)}
        everything = topics | brokers | groups | metrics | {("1", LOGGER)}
        assert await listed() == everything
        assert await listed(TOPIC) == topics
        assert await listed(BROKER, GROUP, BROKER) == brokers | groups
        assert await listed(version=0) == metrics
        for kinds in ((0,), (1,), (TOPIC, 99)):
            assert await listed(*kinds) == ErrorCode.UNSUPPORTED_VERSION
