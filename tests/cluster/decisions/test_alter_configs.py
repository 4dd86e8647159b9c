"""IncrementalAlterConfigs and AlterConfigs; expected answers are Apache Kafka 4.3.1's."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from kwire.codecs.messages.describe_configs import (
    DescribeConfigsResult,
)
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig as Edit,
)
from kwire.codecs.messages.incremental_alter_configs import (
    AlterConfigsResource as EditedResource,
)
from kwire.codecs.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.cluster.decisions.client import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    SET,
    SUBTRACT,
    TOPIC,
    AdminClient,
)
from tests.cluster.decisions.conftest import OpenAdmin

OK = (ErrorCode.NONE, None)
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST
STATIC_BROKER, DEFAULT = 4, 5
MIN_ISR = "min.insync.replicas"
"""A new cluster sets it for all brokers."""


def set_by_hand(result: DescribeConfigsResult) -> dict[str, str | None]:
    return {
        each.name: each.value
        for each in result.configs
        if each.config_source not in (STATIC_BROKER, DEFAULT) and each.name != MIN_ISR
    }


# -- IncrementalAlterConfigs


async def test_incremental_alter_sets_and_deletes_single_configs(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        assert await admin.alter(TOPIC, "a", ("retention.ms", SET, " 5 ")) == OK
        assert await admin.alter(TOPIC, "a", ("segment.ms", SET, "9")) == OK
        changed = {"retention.ms": "5", "segment.ms": "9"}
        assert set_by_hand(await admin.describe(TOPIC, "a")) == changed
        assert await admin.alter(TOPIC, "a", ("retention.ms", DELETE, None)) == OK
        assert await admin.alter(TOPIC, "a", ("no.such", DELETE, "x")) == OK
    async with open_admin() as admin:
        assert set_by_hand(await admin.describe(TOPIC, "a")) == {"segment.ms": "9"}
        version = admin.broker.image.version
        assert await admin.alter(TOPIC, "a", ("segment.ms", SET, "9")) == OK
        assert admin.broker.image.version == version, "nothing to commit"


async def test_append_and_subtract_change_list_configs(open_admin: OpenAdmin) -> None:
    async with open_admin({"log.cleanup.policy": "compact"}) as admin:
        await admin.make("a")
        for operation, value, expected in (
            (APPEND, "compact", "delete,compact"),
            (APPEND, "compact", "delete,compact"),
            (APPEND, " compact , delete ", "delete,compact"),
            (SUBTRACT, "compact", "delete"),
            (SUBTRACT, "compact", "delete"),
            (SUBTRACT, "delete", ""),
            (APPEND, "", ""),
            (SET, "delete,delete", "delete"),
        ):
            assert await admin.alter(TOPIC, "a", ("cleanup.policy", operation, value)) == OK
            assert (await admin.config(TOPIC, "a", "cleanup.policy")).value == expected


MISTAKES: list[tuple[list[tuple[str, int, str | None]], ErrorCode, str]] = [
    (
        [("retention.ms", SET, None)],
        INVALID_REQUEST,
        "Null value not supported for : retention.ms",
    ),
    (
        [("a", SET, None), ("b", APPEND, None)],
        INVALID_REQUEST,
        "Null value not supported for : a, b",
    ),
    (
        [("retention.ms", SET, "5"), ("retention.ms", DELETE, None)],
        INVALID_REQUEST,
        "Error due to duplicate config keys",
    ),
    ([("foo", SET, "5")], INVALID_CONFIG, "Unknown topic config name: foo"),
    (
        [("retention.ms", SET, " x")],
        INVALID_CONFIG,
        "Invalid value  x for configuration retention.ms: Not a number of type LONG",
    ),
    (
        [("retention.ms", APPEND, "5")],
        INVALID_CONFIG,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    ),
    (
        [("foo", SUBTRACT, "5")],
        INVALID_CONFIG,
        "Can't SUBTRACT to key foo because its type is not LIST.",
    ),
    (
        [("segment.ms", SET, "9"), ("cleanup.policy", APPEND, "foo")],
        INVALID_CONFIG,
        "Invalid value foo for configuration cleanup.policy: "
        "String must be one of: compact, delete",
    ),
    (
        [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
        INVALID_CONFIG,
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
    ),
    ([("retention.ms", 4, "5")], INVALID_REQUEST, "Unknown config operation 4"),
]


async def test_invalid_config_refuses_the_whole_resource(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        for edits, error, message in MISTAKES:
            assert await admin.alter(TOPIC, "a", *edits) == (error, message)
            assert await admin.alter(TOPIC, "a", *edits, validate_only=True) == (error, message)
        assert await admin.alter(TOPIC, "a") == OK
        assert await admin.alter(TOPIC, "a", ("retention.ms", SET, "5"), validate_only=True) == OK
        assert set_by_hand(await admin.describe(TOPIC, "a")) == {}


@pytest.mark.parametrize("version", [0, 1])
async def test_refused_resource_does_not_affect_other_resources(
    open_admin: OpenAdmin, version: int
) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b")
        request = IncrementalAlterConfigsRequest(
            [
                EditedResource(kind, name, [Edit("retention.ms", SET, value)])
                for kind, name, value in (
                    (TOPIC, "twice", "5"),
                    (TOPIC, "a", "x"),
                    (TOPIC, "b", "77"),
                    (TOPIC, "nope", "5"),
                    (TOPIC, "bad name", "5"),
                    (TOPIC, "", "5"),
                    (99, "x", "5"),
                    (TOPIC, "twice", "6"),
                )
            ]
        )
        response = await admin.ask(request, version, IncrementalAlterConfigsResponse)
        repeated = "Each resource must appear at most once."
        assert [(each.error_code, each.error_message) for each in response.responses] == [
            (INVALID_REQUEST, repeated),
            (
                INVALID_CONFIG,
                "Invalid value x for configuration retention.ms: Not a number of type LONG",
            ),
            (ErrorCode.NONE, None),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
            (
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                "Topic name is invalid: 'bad name' contains one or more characters other than "
                "ASCII alphanumerics, '.', '_' and '-'",
            ),
            (INVALID_REQUEST, "Default topic resources are not allowed."),
            (INVALID_REQUEST, "Unknown resource type 99"),
            (INVALID_REQUEST, repeated),
        ]
        assert set_by_hand(await admin.describe(TOPIC, "b")) == {"retention.ms": "77"}


async def test_dynamic_broker_configs_take_effect_at_once(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        assert await admin.alter(BROKER, "", ("message.max.bytes", SET, "2000")) == OK
        assert admin.broker.config.message_max_bytes == 2000
        assert await admin.alter(BROKER, "1", ("message.max.bytes", SET, "3000")) == OK
        assert admin.broker.config.message_max_bytes == 3000
        partition = admin.broker.hosted.get("a", 0)
        assert partition is not None
        assert partition.log.config.max_message_bytes == 3000
    async with open_admin() as admin:
        assert admin.broker.config.message_max_bytes == 3000
        assert await admin.alter(BROKER, "1", ("message.max.bytes", DELETE, None)) == OK
        assert admin.broker.config.message_max_bytes == 2000


async def test_dynamic_producer_configs_take_effect_in_logs(open_admin: OpenAdmin) -> None:
    verification, expiration = (
        "transaction.partition.verification.enable",
        "producer.id.expiration.ms",
    )

    def settings(name: str) -> tuple[bool, int]:
        partition = admin.broker.hosted.get(name, 0)
        assert partition is not None
        producers = partition.log.producers
        return producers.verify_transactions, producers.expiration_ms

    async with open_admin({verification: "false"}) as admin:
        await admin.make("a")
        assert settings("a") == (False, 86_400_000)
        assert await admin.alter(BROKER, "", (verification, SET, "true")) == OK
        assert await admin.alter(BROKER, "", (expiration, SET, "9000")) == OK
        await admin.make("b")
        assert settings("a") == settings("b") == (True, 9_000)


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("1", ("node.id", SET, "5"), "Cannot update these configs dynamically: [node.id]"),
        ("", ("log.dirs", SET, "/x"), "Cannot update these configs dynamically: [log.dirs]"),
        (
            "1",
            ("ssl.keystore.type", SET, "PEM"),
            "These security configs can be dynamically updated only per-listener using the "
            "listener prefix: [ssl.keystore.type]",
        ),
        (
            "",
            ("listener.name.external.ssl.keystore.type", SET, "PEM"),
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[listener.name.external.ssl.keystore.type]",
        ),
        (
            "1",
            ("log.cleaner.threads", SET, "x"),
            "Invalid value x for configuration log.cleaner.threads: Not a number of type INT",
        ),
        (
            "1",
            ("log.retention.ms", SET, "0"),
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or "
            "equal to 1",
        ),
        (
            "",
            ("log.cleanup.policy", SET, "delete, delete"),
            "Configuration 'log.cleanup.policy' values must not be duplicated.",
        ),
        (
            "",
            ("log.cleanup.policy", SET, ","),
            "Configuration 'log.cleanup.policy' values must not be duplicated.",
        ),
        (
            "1",
            ("ssl.cipher.suites", SET, "a,a"),
            "Configuration 'ssl.cipher.suites' values must not be duplicated.",
        ),
        (
            "1",
            ("listener.name.in.ssl.enabled.protocols", SET, "TLSv1.2,TLSv1.2"),
            "Configuration 'ssl.enabled.protocols' values must not be duplicated.",
        ),
        (
            "1",
            ("listeners", SET, "PLAINTEXT://:9092"),
            "This broker changes its listeners by a restart only: [listeners]",
        ),
        (
            "7",
            ("log.cleaner.threads", SET, "2"),
            "Unexpected broker id, expected 1, but received 7",
        ),
        ("x", ("log.cleaner.threads", SET, "2"), "Node id must be an integer, but it is: x"),
    ],
)
async def test_invalid_broker_configs_are_refused(
    open_admin: OpenAdmin, name: str, edit: tuple[str, int, str], message: str
) -> None:
    async with open_admin() as admin:
        before = admin.broker.config
        assert await admin.alter(BROKER, name, edit) == (INVALID_REQUEST, message)
        assert admin.broker.config is before


@pytest.mark.parametrize("name", ["", "1"])
async def test_append_to_a_broker_config_that_is_no_list_is_refused(
    open_admin: OpenAdmin, name: str
) -> None:
    async with open_admin() as admin:
        for key, operation, sentence in (
            ("log.retention.ms", APPEND, "Config value append is not allowed for config key: {}"),
            (MIN_ISR, SUBTRACT, "Config value subtract is not allowed for config key: {}"),
            ("no.such", APPEND, "Unknown config name: {}"),
            ("retention.ms", SUBTRACT, "Unknown config name: {}"),
        ):
            answer = await admin.alter(BROKER, name, (key, operation, "1"))
            assert answer == (INVALID_CONFIG, sentence.format(key))


async def test_unknown_broker_config_is_kept_as_sensitive(open_admin: OpenAdmin) -> None:
    """Kafka's plug-ins read such configs, and they may be secrets."""
    async with open_admin() as admin:
        assert await admin.alter(BROKER, "", ("foo.bar", SET, "x")) == OK
        config, _ = (await admin.describe(BROKER, "")).configs
        assert (config.name, config.value, config.is_sensitive) == ("foo.bar", None, True)
        assert config.read_only


async def test_group_configs_outside_the_bounds_are_refused(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        assert await admin.alter(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == OK
        session = await admin.config(GROUP, "g", "consumer.session.timeout.ms")
        assert (session.value, session.config_source) == ("50000", 8)
        for edit, message in (
            (
                ("consumer.session.timeout.ms", SET, "1"),
                "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
            ),
            (("foo", SET, "1"), "Unknown group config name: foo"),
        ):
            assert await admin.alter(GROUP, "g", edit) == (INVALID_CONFIG, message)
        assert await admin.alter(GROUP, "", ("x", SET, "1")) == (
            INVALID_REQUEST,
            "Default group resources are not allowed.",
        )


async def test_client_metrics_configs_are_set_and_checked(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        subscription = [("interval.ms", SET, "1000"), ("match", SET, "client_id=x.*")]
        assert await admin.alter(CLIENT_METRICS, "m", *subscription) == OK
        assert set_by_hand(await admin.describe(CLIENT_METRICS, "m")) == {
            "interval.ms": "1000",
            "match": "client_id=x.*",
        }
        for edit, error, message in (
            (
                ("interval.ms", SET, "1"),
                INVALID_REQUEST,
                "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 "
                "(1 hour)",
            ),
            (("foo", SET, "1"), INVALID_REQUEST, "Unknown client metrics configuration: foo"),
            (
                ("match", SET, "client_id=["),
                INVALID_CONFIG,
                "Illegal client matching pattern: client_id=[",
            ),
        ):
            assert await admin.alter(CLIENT_METRICS, "m", edit) == (error, message)
        assert await admin.alter(CLIENT_METRICS, "", ("interval.ms", SET, "1000")) == (
            INVALID_REQUEST,
            "Subscription name can't be empty",
        )


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger of the test; its level is reset."""
    found = logging.getLogger("kwire.test-of-levels")
    yield found
    found.setLevel(logging.NOTSET)


async def test_logger_levels_are_set_reset_and_checked(
    open_admin: OpenAdmin, logger: logging.Logger
) -> None:
    async with open_admin() as admin:
        assert await admin.alter(LOGGER, "1", (logger.name, SET, "TRACE"), validate_only=True) == OK
        assert logger.level == logging.NOTSET
        assert await admin.alter(LOGGER, "1", (logger.name, SET, "DEBUG")) == OK
        assert logger.level == logging.DEBUG
        described = await admin.config(LOGGER, "1", logger.name)
        assert (described.value, described.config_source, described.config_type) == ("DEBUG", 6, 0)
        assert await admin.alter(LOGGER, "1", (logger.name, DELETE, None)) == OK
        assert logger.level == logging.NOTSET
        for edit, error, message in (
            (
                (logger.name, SET, "debug"),
                INVALID_CONFIG,
                f"Cannot set the log level of {logger.name} to debug as it is not a supported log "
                "level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
            ),
            (("no.such", SET, "INFO"), INVALID_CONFIG, "Logger no.such does not exist!"),
            (
                ("root", DELETE, None),
                INVALID_REQUEST,
                "Removing the log level of the root logger is not allowed",
            ),
            (
                ("root", APPEND, "INFO"),
                INVALID_REQUEST,
                "APPEND operation is not allowed for the BROKER_LOGGER resource",
            ),
        ):
            assert await admin.alter(LOGGER, "1", edit) == (error, message)
        assert await admin.alter(LOGGER, "7", ("root", SET, "INFO")) == (
            INVALID_REQUEST,
            "Unexpected node id. Expected 1, but received 7",
        )


# -- AlterConfigs


async def replace_all(
    admin: AdminClient,
    *resources: tuple[int, str, dict[str, str | None]],
    validate_only: bool = False,
    version: int = 2,
) -> list[tuple[int, str | None]]:
    request = AlterConfigsRequest(
        [
            AlterConfigsResource(
                kind, name, [AlterableConfig(*config) for config in configs.items()]
            )
            for kind, name, configs in resources
        ],
        validate_only,
    )
    response = await admin.ask(request, version, AlterConfigsResponse)
    return [(each.error_code, each.error_message) for each in response.responses]


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs_replaces_all_configs_of_a_resource(
    open_admin: OpenAdmin, version: int
) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        for configs in ({"retention.ms": "5", "segment.ms": "9"}, {"retention.ms": "6"}, {}):
            wanted: dict[str, str | None] = dict(configs)
            assert await replace_all(admin, (TOPIC, "a", wanted), version=version) == [OK]
            assert set_by_hand(await admin.describe(TOPIC, "a")) == wanted
        seven: dict[str, str | None] = {"retention.ms": "7"}
        assert await replace_all(admin, (TOPIC, "a", seven), validate_only=True) == [OK]
        assert set_by_hand(await admin.describe(TOPIC, "a")) == {}


async def test_alter_configs_refuses_invalid_resources(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b")
        assert await replace_all(
            admin,
            (TOPIC, "a", {"retention.ms": None}),
            (TOPIC, "nope", {}),
            (LOGGER, "1", {"root": "INFO"}),
            (BROKER, "1", {"node.id": "1"}),
            (TOPIC, "b", {"foo": "1"}),
            (TOPIC, "b", {}),
        ) == [
            (INVALID_REQUEST, "Null value not supported for : retention.ms"),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
            (INVALID_REQUEST, "Unknown resource type 8"),
            (INVALID_REQUEST, "Cannot update these configs dynamically: [node.id]"),
            (INVALID_REQUEST, "Each resource must appear at most once."),
            (INVALID_REQUEST, "Each resource must appear at most once."),
        ]
