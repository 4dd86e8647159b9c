"""CreateTopics, DeleteTopics and CreatePartitions; expected answers are Apache Kafka 4.3.1's."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.create_topics import CreatableTopic
from kwire.codecs.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.codecs.primitives import ZERO_UUID
from tests.cluster.decisions.client import TOPIC, AdminClient, new_topic
from tests.cluster.decisions.conftest import OpenAdmin


async def test_created_topic_is_answered_and_stored(open_admin: OpenAdmin, tmp_path: Path) -> None:
    async with open_admin() as admin:
        (made,) = await admin.create(new_topic("a", 3, configs={"retention.ms": " 7 "}))
        assert (made.error_code, made.error_message) == (ErrorCode.NONE, None)
        assert (made.num_partitions, made.replication_factor) == (3, 1)
        configs = {config.name: config for config in made.configs or []}
        assert list(configs) == sorted(configs)
        assert len(configs) == 37
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == (" 7 ", 1)
        assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == (
            "1073741824",
            5,
        )
        (listed,) = (await admin.metadata("a")).topics
        assert listed.topic_id == made.topic_id
        assert [each.leader_id for each in listed.partitions] == [1, 1, 1]
        assert (tmp_path / "data" / "a-2").is_dir()
    async with open_admin() as admin:
        (listed,) = (await admin.metadata("a")).topics
        assert listed.topic_id == made.topic_id
        assert (await admin.config(TOPIC, "a", "retention.ms")).value == "7"
        partition = admin.broker.hosted.get("a", 2)
        assert partition is not None
        assert partition.log.config.retention_ms == 7


REFUSED: list[tuple[CreatableTopic, ErrorCode, str]] = [
    (
        new_topic(""),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: the empty string is not allowed",
    ),
    (
        new_topic("a b", 0, configs={"foo": "1"}),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
        "alphanumerics, '.', '_' and '-'",
    ),
    (
        new_topic("x" * 250),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed "
        "length 249",
    ),
    (
        new_topic("__cluster_metadata"),
        ErrorCode.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    (
        new_topic("there", 0),
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 'there' already exists.",
    ),
    (
        new_topic("col_lide"),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'col_lide' collides with existing topic: col.lide",
    ),
    (
        new_topic("n", 0, 0, configs={"foo": "1"}),
        ErrorCode.INVALID_CONFIG,
        "Unknown topic config name: foo",
    ),
    (
        new_topic("n", configs={"foo": None, "retention.ms": None}),
        ErrorCode.INVALID_CONFIG,
        "Null value not supported for topic configs: foo,retention.ms",
    ),
    (
        new_topic("n", configs={"retention.ms": "x"}),
        ErrorCode.INVALID_CONFIG,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    ),
    (
        new_topic("n", configs={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}),
        ErrorCode.INVALID_CONFIG,
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
    ),
    (
        new_topic("n", configs={"remote.storage.enable": "true"}),
        ErrorCode.INVALID_CONFIG,
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with "
        "remote log storage.",
    ),
    (
        new_topic("n", 0),
        ErrorCode.INVALID_PARTITIONS,
        "Number of partitions was set to an invalid non-positive value.",
    ),
    (
        new_topic("n", 0, 0),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (
        new_topic("n", 1, 2),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot "
        "be reached because only 1 broker(s) are registered or some brokers have all their log "
        "directories cordoned.",
    ),
    (
        new_topic("n", 2, -1, [(0, [1]), (1, [1])]),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    (
        new_topic("n", 2, 1, [(0, [1]), (1, [1])]),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    (
        new_topic("n", -1, -1, [(0, [1]), (2, [1])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (
        new_topic("n", -1, -1, [(0, [1]), (0, [1])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Found multiple manual partition assignments for partition 0",
    ),
    (
        new_topic("n", -1, -1, [(0, [7])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 7, but no such broker is registered.",
    ),
    (
        new_topic("n", -1, -1, [(0, [1, 1])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    (
        new_topic("n", -1, -1, [(0, [])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        new_topic("n", 10_001),
        ErrorCode.POLICY_VIOLATION,
        "Excessively large number of partitions per request.",
    ),
]


async def test_invalid_topics_are_refused_with_kafkas_messages(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("there", "col.lide")
        for topic, error, message in REFUSED:
            for validate_only in (True, False):
                (result,) = await admin.create(topic, validate_only=validate_only)
                assert (result.error_code, result.error_message) == (error, message)
                assert (result.topic_id, result.num_partitions) == (ZERO_UUID, -1)
                assert result.configs == []
        assert await admin.names() == {"there", "col.lide"}


async def test_refused_topic_does_not_affect_other_topics(
    open_admin: OpenAdmin,
) -> None:
    async with open_admin() as admin:
        results = await admin.create(
            new_topic("twice"), new_topic("a"), new_topic("bad name"), new_topic("twice", 0),
            new_topic("b", -1, -1, [(1, [1]), (0, [1])]),
        )  # fmt: skip
        assert [(result.name, result.error_code) for result in results] == [
            ("a", ErrorCode.NONE),
            ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("b", ErrorCode.NONE),
            ("twice", ErrorCode.INVALID_REQUEST),
        ]
        assert results[-1].error_message == "Duplicate topic name."
        assert await admin.names() == {"a", "b"}


async def test_request_with_too_many_partitions_is_refused(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        results = await admin.create(new_topic("a", 6000), new_topic("b", 4001), new_topic("?"))
        assert [result.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 3


@pytest.mark.parametrize("version", range(2, 8))
async def test_topic_gets_broker_defaults_at_every_version(
    open_admin: OpenAdmin, version: int
) -> None:
    settings = {"num.partitions": "3", "log.retention.hours": "5", "log.roll.ms": "77"}
    async with open_admin(settings) as admin:
        (made,) = await admin.create(new_topic("a", -1, -1), version=version)
        assert made.error_code == ErrorCode.NONE
        assert len((await admin.metadata("a")).topics[0].partitions) == 3
        configs = {config.name: config for config in made.configs or []}
        assert bool(configs) == (version >= 5)
        assert (made.topic_id != ZERO_UUID) == (version >= 7)
        if version >= 5:
            assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == (
                "18000000",
                4,
            )
            assert configs["segment.ms"].value == "77"


async def test_validate_only_creates_nothing(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        (result,) = await admin.create(new_topic("a", 2), validate_only=True)
        assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 2)
        assert await admin.names() == set()


async def test_error_of_the_store_is_the_error_of_each_topic(
    open_admin: OpenAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_admin() as admin:

        async def failing(*arguments: object) -> None:
            raise StoreError("cannot write the metadata: disk full")

        monkeypatch.setattr(admin.broker.node.store, "commit", failing)
        (result,) = await admin.create(new_topic("a"))
        assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert result.error_message == "cannot write the metadata: disk full"
        assert await admin.names() == set()


async def test_concurrent_creations_create_each_topic_once(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        results: list[ErrorCode] = []

        async def create(name: str) -> None:
            client = AdminClient(admin.broker, await type(admin._client).connect(admin.broker))
            results.append(ErrorCode((await client.create(new_topic(name)))[0].error_code))

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(create, f"t{number % 5}")
        assert sorted(results) == [ErrorCode.NONE] * 5 + [ErrorCode.TOPIC_ALREADY_EXISTS] * 5
        assert await admin.names() == {f"t{number}" for number in range(5)}


# -- DeleteTopics


async def delete(
    admin: AdminClient, *topics: str | bytes | DeleteTopicState, version: int = 6
) -> list[tuple[str | None, ErrorCode, str | None]]:
    """DeleteTopics by name, by id, or by a whole entry."""
    states = [
        topic
        if isinstance(topic, DeleteTopicState)
        else DeleteTopicState(topic)
        if isinstance(topic, str)
        else DeleteTopicState(None, topic)
        for topic in topics
    ]
    if version < 6:
        names = [state.name for state in states if state.name is not None]
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=5000)
    else:
        request = DeleteTopicsRequest(states, timeout_ms=5000)
    response = await admin.ask(request, version, DeleteTopicsResponse)
    return [
        (result.name, ErrorCode(result.error_code), result.error_message)
        for result in response.responses
    ]


UNKNOWN_NAME = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "This server does not host this topic-partition.",
)


async def test_deleted_topic_is_gone_with_its_data(open_admin: OpenAdmin, tmp_path: Path) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b", partitions=2)
        assert await delete(admin, "a") == [("a", ErrorCode.NONE, None)]
        assert await admin.names() == {"b"}
        assert admin.broker.hosted.get("a", 0) is None
        folders = {path.name for path in (tmp_path / "data").iterdir() if path.is_dir()}
        assert {name for name in folders if not name.endswith("-delete")} == {"b-0", "b-1"}
        assert await delete(admin, "a") == [("a", *UNKNOWN_NAME)]
    async with open_admin() as admin:
        assert await admin.names() == {"b"}


async def test_recreated_topic_is_empty_and_has_another_id(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.create(new_topic("a", configs={"retention.ms": "7"}))
        old_id = admin.broker.image.topics["a"].id
        await delete(admin, "a")
        await admin.make("a")
        assert admin.broker.image.topics["a"].id != old_id
        assert (await admin.config(TOPIC, "a", "retention.ms")).config_source == 5


async def test_delete_topics_deletes_by_id(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        topic_id = admin.broker.image.topics["a"].id
        assert await delete(admin, topic_id) == [("a", ErrorCode.NONE, None)]
        assert await delete(admin, topic_id) == [
            (None, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        ]


async def test_ambiguously_named_topics_are_not_deleted(open_admin: OpenAdmin) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    async with open_admin() as admin:
        await admin.make("a", "b")
        topic_id = admin.broker.image.topics["a"].id
        assert await delete(admin, DeleteTopicState("a", topic_id)) == [
            ("a", invalid, "You may not specify both topic name and topic id.")
        ]
        assert await delete(admin, DeleteTopicState()) == [
            (None, invalid, "Neither topic name nor id were specified.")
        ]
        assert await delete(admin, "a", "a") == [("a", invalid, "Duplicate topic name.")]
        assert await delete(admin, topic_id, topic_id) == [(None, invalid, "Duplicate topic id.")]
        assert await delete(admin, "a", "b", topic_id) == [
            ("a", invalid, "The provided topic name maps to an ID that was already supplied."),
            ("b", ErrorCode.NONE, None),
        ]
        assert await admin.names() == {"a"}


@pytest.mark.parametrize("version", range(1, 7))
async def test_delete_topics_is_refused_if_deletion_is_off(
    open_admin: OpenAdmin, version: int
) -> None:
    async with open_admin({"delete.topic.enable": "false"}) as admin:
        await admin.make("a")
        disabled = ErrorCode.TOPIC_DELETION_DISABLED if version > 2 else ErrorCode.INVALID_REQUEST
        assert await delete(admin, "a", "nope", version=version) == [
            ("a", disabled, None),
            ("nope", disabled, None),
        ]
        assert await admin.names() == {"a"}


@pytest.mark.parametrize("version", range(1, 6))
async def test_delete_topics_deletes_by_name_at_every_version(
    open_admin: OpenAdmin, version: int
) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        unknown, message = UNKNOWN_NAME
        assert await delete(admin, "a", "bad name", "", version=version) == [
            ("a", ErrorCode.NONE, None),
            ("bad name", unknown, message if version >= 5 else None),
            ("", unknown, message if version >= 5 else None),
        ]


# -- CreatePartitions


async def grow(
    admin: AdminClient,
    *topics: tuple[str, int, list[list[int]] | None],
    validate_only: bool = False,
    version: int = 3,
) -> list[tuple[str, ErrorCode, str | None]]:
    request = CreatePartitionsRequest(
        [
            CreatePartitionsTopic(
                name,
                count,
                None
                if assignments is None
                else [CreatePartitionsAssignment(each) for each in assignments],
            )
            for name, count, assignments in topics
        ],
        5000,
        validate_only,
    )
    response = await admin.ask(request, version, CreatePartitionsResponse)
    return [
        (result.name, ErrorCode(result.error_code), result.error_message)
        for result in response.results
    ]


@pytest.mark.parametrize("version", range(4))
async def test_create_partitions_adds_partitions(
    open_admin: OpenAdmin, tmp_path: Path, version: int
) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b", partitions=2)
        topic_id = admin.broker.image.topics["a"].id
        done = [("a", ErrorCode.NONE, None)]
        assert await grow(admin, ("a", 4, None), validate_only=True, version=version) == done
        assert len(admin.broker.image.topics["a"].partitions) == 2
        assert await grow(admin, ("a", 4, None), version=version) == done
        assert len((await admin.metadata("a")).topics[0].partitions) == 4
        assert admin.broker.image.topics["a"].id == topic_id
        assert admin.broker.hosted.get("a", 3) is not None
        assert (tmp_path / "data" / "a-3").is_dir()
        assert await grow(admin, ("b", 3, [[1]]), version=version) == [("b", ErrorCode.NONE, None)]


async def test_invalid_create_partitions_is_refused(open_admin: OpenAdmin) -> None:
    invalid, assignment = ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cases: list[tuple[int, list[list[int]] | None, ErrorCode, str | None]] = [
        (2, None, invalid, "Topic already has 2 partition(s)."),
        (
            1,
            None,
            invalid,
            "The topic a currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            4,
            [[1]],
            assignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            3,
            [[7]],
            assignment,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            3,
            [[]],
            assignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            20_000,
            None,
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
    ]
    async with open_admin() as admin:
        await admin.make("a", partitions=2)
        for count, assignments, error, message in cases:
            assert await grow(admin, ("a", count, assignments)) == [("a", error, message)]
        assert await grow(admin, ("nope", 2, None), ("a", 3, None), ("a", 4, None)) == [
            ("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        ]
        assert len(admin.broker.image.topics["a"].partitions) == 2
