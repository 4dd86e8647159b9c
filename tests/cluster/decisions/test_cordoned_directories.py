"""Cordoned log directories get no new replicas (KIP-1066), as in Apache Kafka 4.4.0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kwire.cluster.decisions.topic_creation import NewTopic, creation
from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.cordoning import cordoned_brokers, uncordoned_brokers
from kwire.cluster.metadata.features import METADATA_VERSION, FinalizedFeatures
from kwire.cluster.metadata.image import BrokerImage, ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.local import FILE_NAME, LocalStore
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.create_topics import CreateTopicsRequest
from kwire.codecs.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codecs.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kwire.codecs.primitives import Message
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.conformance.wire.broker import address_of
from kwire.conformance.wire.peer import ClientConnection, Reply
from kwire.settings import BrokerConfig, ConfigResourceType
from kwire.testing import BrokerProcess
from tests.cluster.decisions.client import BROKER, DELETE, SET, new_topic
from tests.cluster.decisions.conftest import OpenAdmin
from tests.conftest import finish
from tests.polling import until

CORDONED = "cordoned.log.dirs"
OK = (0, None)
CONFIG = ErrorCode.INVALID_REQUEST
FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR
ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
NO_BROKER = "All brokers are currently fenced, or have all their log directories cordoned."
NOT_PLACED = f"Unable to replicate the partition 1 time(s): {NO_BROKER}"
NOT_ASSIGNED = (
    "The manual partition assignment includes broker 1, but all its log directories are cordoned."
)
NOT_ALONE = (
    "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values"
)
MISSING = (
    "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
    "Missing entries : "
)


class Directory(NamedTuple):
    """What DescribeLogDirs says of a log directory."""

    is_cordoned: bool
    partitions: list[str]


class Asking:
    """A client of a broker with the log directories `one` and `two`."""

    def __init__(self, bootstrap: str, one: Path, two: Path) -> None:
        self._peer = ClientConnection(address_of(bootstrap))
        self.one, self.two = str(one), str(two)

    def close(self) -> None:
        self._peer.close()

    def _call(self, request: Message, version: int) -> Any:  # noqa: ANN401 - by request
        assert request.API_KEY is not None
        self._peer.send(ApiKey(request.API_KEY), version, request.encode(version))
        outcome = self._peer.receive()
        assert isinstance(outcome, Reply), outcome
        return outcome.message

    def cordon(self, value: str | None) -> tuple[int, str | None]:
        """Set `cordoned.log.dirs` of the broker, or delete it for None."""
        edit = AlterableConfig(CORDONED, DELETE if value is None else SET, value)
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", [edit])])
        [answer] = self._call(request, 1).responses
        return answer.error_code, answer.error_message

    def create(
        self,
        name: str,
        *,
        validate_only: bool = False,
        **shape: Any,  # noqa: ANN401 - see new_topic
    ) -> tuple[int, str | None]:
        """Create a topic of one partition with one replica, unless `shape` has others."""
        topic = new_topic(name, **shape)
        [answer] = self._call(CreateTopicsRequest([topic], 20_000, validate_only), 7).topics
        return answer.error_code, answer.error_message

    def grow(
        self, name: str, count: int, replicas: list[int] | None = None
    ) -> tuple[int, str | None]:
        """Add partitions up to `count`; the last one gets these replicas if they are given."""
        assigned = None if replicas is None else [CreatePartitionsAssignment(replicas)]
        topic = CreatePartitionsTopic(name, count, assigned)
        [answer] = self._call(CreatePartitionsRequest([topic], 20_000), 3).results
        return answer.error_code, answer.error_message

    def reassign(self, name: str, replicas: list[int]) -> tuple[int, str | None]:
        """Reassign partition 0."""
        topic = ReassignableTopic(name, [ReassignablePartition(0, replicas)])
        request = AlterPartitionReassignmentsRequest(20_000, topics=[topic])
        [[answer]] = [each.partitions for each in self._call(request, 0).responses]
        return answer.error_code, answer.error_message

    def move(self, name: str, path: str) -> int:
        """Move partition 0 to a log directory of the broker."""
        directory = AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(name, [0])])
        [result] = self._call(AlterReplicaLogDirsRequest([directory]), 2).results
        code: int = result.partitions[0].error_code
        return code

    def directories(self) -> dict[str, Directory]:
        return {
            Path(each.log_dir).name: Directory(
                each.is_cordoned,
                sorted(
                    f"{topic.name}-{partition.partition_index}"
                    for topic in each.topics
                    for partition in topic.partitions
                ),
            )
            for each in self._call(DescribeLogDirsRequest(None), 5).results
        }


def reaches(expected: object, ask: Callable[[], object]) -> None:
    """Wait until the answer is the expected one: Apache Kafka's parts learn from each other."""
    answer: object = None

    def is_there() -> bool:
        nonlocal answer
        answer = ask()
        return answer == expected

    until(is_there, f"{expected} is not the answer")


def check_cordoning(asking: Asking) -> None:
    """Put cordoned directories to the test; topics are `a`, `b`, `c` and `r`."""
    one, two = asking.one, asking.two
    assert asking.create("a", partitions=4) == OK
    reaches(
        {"one": 2, "two": 2},
        lambda: {name: len(each.partitions) for name, each in asking.directories().items()},
    )
    check_values(asking)
    assert asking.cordon(one) == OK
    reaches([True, False], lambda: cordoned(asking))
    assert asking.create("b", partitions=3) == OK
    reaches(5, lambda: len(asking.directories()["two"].partitions))
    assert len(asking.directories()["one"].partitions) == 2
    assert asking.move("b", one) == ASSIGNMENT
    assert asking.move("nosuch", one) == ASSIGNMENT
    assert asking.grow("b", 4) == OK
    reaches(6, lambda: len(asking.directories()["two"].partitions))
    check_broker(asking)
    assert asking.cordon(None) == OK
    reaches([False, False], lambda: cordoned(asking))
    reaches(OK, lambda: asking.create("r", validate_only=True))
    assert asking.create("r") == OK
    reaches(True, lambda: "r-0" in asking.directories()["one"].partitions)
    assert asking.move("r", two) == 0


def cordoned(asking: Asking) -> list[bool]:
    found = asking.directories()
    return [found["one"].is_cordoned, found["two"].is_cordoned]


def check_values(asking: Asking) -> None:
    """Check which values `cordoned.log.dirs` can have."""
    one, two = asking.one, asking.two
    refused = {
        f"{one},{one}": f"Configuration '{CORDONED}' values must not be duplicated.",
        f"{one},": f"Configuration '{CORDONED}' values must not be empty.",
        f"*,{one}": NOT_ALONE,
        f"{one},*": NOT_ALONE,
        "/no": f"{MISSING}/no",
        f"/no,{one},/other": f"{MISSING}/no, /other",
        f"{one}/": f"{MISSING}{one}/",
    }
    for value, why in refused.items():
        assert asking.cordon(value) == (CONFIG, why), value
    for value, expected in (
        ("*", [True, True]),
        (f" {one} , {two} ", [True, True]),
        ("", [False, False]),
        (two, [False, True]),
    ):
        assert asking.cordon(value) == OK, value
        reaches(expected, lambda: cordoned(asking))


def check_broker(asking: Asking) -> None:
    """Check what a broker refuses whose directories are all cordoned."""
    assert asking.cordon(f"{asking.one},{asking.two}") == OK
    reaches((FACTOR, NOT_PLACED), lambda: asking.create("c", validate_only=True))
    assert asking.create("c") == (FACTOR, NOT_PLACED)
    assert asking.create("c", factor=-1) == (FACTOR, NOT_PLACED)
    two = NOT_PLACED.replace("1 time", "2 time")
    assert asking.create("c", factor=2) == (FACTOR, two)
    for replicas in ([1], [1, 2], [1, 1]):
        refused = asking.create("c", partitions=-1, factor=-1, assignments=[(0, replicas)])
        assert refused == (ASSIGNMENT, NOT_ASSIGNED)
    assert asking.grow("b", 5) == (FACTOR, NO_BROKER)
    assert asking.grow("b", 5, [1]) == (ASSIGNMENT, NOT_ASSIGNED)
    assert asking.reassign("b", [1]) == (ASSIGNMENT, NOT_ASSIGNED)
    assert asking.move("b", asking.two) == ASSIGNMENT


@pytest.mark.slow
def test_cordoned_directories_and_brokers_get_no_new_replicas(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    broker = BrokerProcess(tmp_path / "broker", {"node.id": "1", "log.dirs": f"{one},{two}"})
    broker.start()
    try:
        asking = Asking(broker.bootstrap, one, two)
        check_cordoning(asking)
        assert asking.cordon(asking.one) == OK
        asking.close()
        broker.restart()
        asking = Asking(broker.bootstrap, one, two)
        assert cordoned(asking) == [True, False]
        asking.close()
    finally:
        finish(broker)


@pytest.mark.java
@pytest.mark.long
def test_apache_kafka_cordons_in_the_same_way(apache_kafka_libs: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with ApacheKafka(tmp_path / "node", settings={"log.dirs": f"{one},{two}"}) as node:
        asking = Asking(node.bootstrap, one, two)
        check_cordoning(asking)
        asking.close()


async def test_directories_cannot_be_cordoned_below_metadata_version_4_3(
    open_admin: OpenAdmin, tmp_path: Path
) -> None:
    why = (
        "The cordoned.log.dirs configuration value cannot be set because it requires "
        "metadata.version >= 4.3-IV0"
    )
    first = SetFeatures(0, FinalizedFeatures({METADATA_VERSION: 29}, epoch=1))
    LocalStore(tmp_path / "data" / FILE_NAME, first=(first,)).close()
    async with open_admin() as admin:
        for edit in ((CORDONED, SET, "*"), (CORDONED, SET, ""), (CORDONED, DELETE, None)):
            assert await admin.alter(BROKER, "1", edit) == (40, why)
        update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=30)
        request = UpdateFeaturesRequest(feature_updates=[update])
        assert (await admin.ask(request, 1, UpdateFeaturesResponse)).error_code == 0
        assert await admin.alter(BROKER, "1", (CORDONED, SET, "*")) == OK


def with_directories(broker_id: int, *cordoned: str) -> BrokerImage:
    """A broker with the directories a and b, of which its settings cordon these."""
    return BrokerImage(broker_id, (), log_dirs=("a", "b"), cordoned=cordoned)


@pytest.mark.parametrize(
    ("in_settings", "config", "is_cordoned"),
    [
        ((), None, False),
        (("a",), None, False),
        (("a", "b"), None, True),
        (("*",), None, True),
        (("*",), "a", False),
        (("*",), "", False),
        ((), " b , a ", True),
        ((), "*", True),
    ],
)
def test_broker_is_cordoned_if_all_its_directories_are(
    in_settings: tuple[str, ...], config: str | None, is_cordoned: bool
) -> None:
    image = ClusterImage("c").with_broker(with_directories(1, *in_settings))
    image = image.with_broker(with_directories(2)).with_broker(BrokerImage(3, ()))
    if config is not None:
        image = image.with_configs(ConfigResourceType.BROKER, "1", {"cordoned.log.dirs": config})
    assert cordoned_brokers(image) == ({1} if is_cordoned else set())
    assert uncordoned_brokers(image).keys() == {1, 2, 3} - cordoned_brokers(image)


def test_partitions_are_placed_on_brokers_that_are_not_cordoned() -> None:
    image = ClusterImage("c").with_broker(with_directories(1)).with_broker(with_directories(2, "*"))
    created = [creation(image, BrokerConfig(), NewTopic(name), ()) for name in ("t", "u", "v")]
    replicas = {each.topic.partitions[0].replicas for each in created}
    assert replicas == {(1,)}
    assigned = NewTopic("t", assignments=[(0, [1]), (1, [2])])
    with pytest.raises(Refusal, match="includes broker 2, but all its log directories are cord"):
        creation(image, BrokerConfig(), assigned, ())
    with pytest.raises(Refusal, match="because only 1 broker"):
        creation(image, BrokerConfig(), NewTopic("t", replication_factor=2), ())
