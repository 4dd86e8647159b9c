"""Consumer groups on Apache Kafka 4.3.1: its tools read their records, its broker continues them.

Also with members of the classic protocol.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from kwire.client.connection import BrokerConnection
from kwire.codecs.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing import BrokerProcess
from tests.clients.waiting import eventually
from tests.conftest import finish
from tests.groups.consumer.classic import subscription

pytestmark = [pytest.mark.java, pytest.mark.slow]

JavaClass = Callable[..., CompletedProcess[str]]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "auto.create.topics.enable": "false",
}


class Members:
    """What members say to a broker, and hear."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.connection = connection

    @classmethod
    @contextmanager
    def of(cls, bootstrap: str) -> Iterator[Members]:
        port = int(bootstrap.rpartition(":")[2])
        with closing(
            BrokerConnection("127.0.0.1", port, client_id="client", timeout_s=120)
        ) as made:
            members = cls(made)
            eventually(members.is_coordinated, expected=True)
            yield members

    def is_coordinated(self) -> bool:
        """Whether the broker coordinates groups by now: it makes the topic for it first."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        if self.connection.call(request).coordinators[0].error_code:
            return False
        described = self.connection.call(ConsumerGroupDescribeRequest(["g"])).groups[0]
        return described.error_code in (0, 69)

    def create(self, name: str, partitions: int) -> bytes:
        topics = [CreatableTopic(name, partitions, 1)]
        reply = self.connection.call(CreateTopicsRequest(topics, timeout_ms=60_000))
        assert reply.topics[0].error_code == 0
        topic_id: bytes = reply.topics[0].topic_id

        def there() -> bool:
            request = MetadataRequest([MetadataRequestTopic(name=name)])
            told = self.connection.call(request).topics[0]
            return not told.error_code and len(told.partitions) == partitions

        eventually(there, expected=True)
        return topic_id

    def beat(self, member: str, epoch: int, **fields: Any) -> Any:  # noqa: ANN401 - any fields
        request = ConsumerGroupHeartbeatRequest("g", member, epoch, **fields)
        reply = self.connection.call(request)
        assert reply.error_code == 0, reply
        return reply

    def join(self, member: str, *topics: str, **fields: Any) -> Any:  # noqa: ANN401 - any fields
        whole = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], **fields}
        return self.beat(member, 0, subscribed_topic_names=list(topics), **whole)

    def classic_join(self, member: str, topic: str) -> int:
        protocols = [JoinGroupRequestProtocol("range", subscription([topic]))]
        request = JoinGroupRequest("g", 45_000, 60_000, member, None, "consumer", protocols)
        reply = self.connection.call(request)
        assert reply.error_code == 0, reply
        generation: int = reply.generation_id
        return generation

    def classic_sync(self, member: str, generation: int) -> bytes:
        reply = self.connection.call(
            SyncGroupRequest("g", generation, member, None, "consumer", "range")
        )
        assert reply.error_code == 0, reply
        return bytes(reply.assignment)

    def classic_beat(self, member: str, generation: int) -> int:
        request = HeartbeatRequest("g", generation, member)
        error: int = self.connection.call(request).error_code
        return error

    def commit(self, member: str, epoch: int, topic_id: bytes, offset: int) -> int:
        places = [OffsetCommitRequestPartition(0, offset)]
        topics = [OffsetCommitRequestTopic("t", topic_id, places)]
        reply = self.connection.call(OffsetCommitRequest("g", epoch, member, topics=topics))
        error: int = reply.topics[0].partitions[0].error_code
        return error

    def committed(self, topic_id: bytes) -> int:
        topics = [OffsetFetchRequestTopics("t", topic_id, [0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])
        group = self.connection.call(request).groups[0]
        offset: int = group.topics[0].partitions[0].committed_offset
        return offset

    def described(self) -> dict[str, Any]:
        group = self.connection.call(ConsumerGroupDescribeRequest(["g"])).groups[0]
        assert group.error_code == 0
        return {
            "state": group.group_state,
            "epochs": (group.group_epoch, group.assignment_epoch),
            "members": {
                member.member_id: (
                    member.instance_id,
                    member.member_epoch,
                    member.member_type,
                    member.client_id,
                    sorted(member.subscribed_topic_names),
                    placed(member.assignment),
                    placed(member.target_assignment),
                )
                for member in group.members
            },
        }


def placed(assignment: Any) -> list[tuple[str, int]]:  # noqa: ANN401 - of a described member
    return sorted(
        (topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def owning(topic_id: bytes, *partitions: int) -> dict[str, Any]:
    return {"topic_partitions": [TopicPartitions(topic_id, list(partitions))]}


def fill(members: Members) -> bytes:
    """A group of "m", a static one, and of "c", which speaks the classic protocol; topic's id."""
    topic_id = members.create("t", 3)
    members.join("m", "t", instance_id="i", rack_id="r", server_assignor="range")
    members.classic_join("c", "t")
    members.beat("m", 2, instance_id="i", **owning(topic_id, 0, 1, 2))
    members.beat("m", 2, instance_id="i", **owning(topic_id, 0, 1))
    generation = members.classic_join("c", "t")
    members.classic_sync("c", generation)
    assert generation == 3
    assert members.commit("m", 3, topic_id, 5) == 0
    return topic_id


def test_apache_kafkas_tools_print_group_records(java_class: JavaClass, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, SETTINGS)
    with broker, Members.of(broker.bootstrap) as members:
        fill(members)
        eventually(lambda: is_to_have_some(members, "p", "t|u"), expected=True)
    paths = sorted((broker.data_dir / "__consumer_offsets-0").glob("*.log"))
    given = ["--files", ",".join(map(str, paths)), "--offsets-decoder", "--deep-iteration"]
    done = java_class(DUMP, given)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [
        (json.loads(key), json.loads(value) if value.startswith("{") else None)
        for key, value in re.findall(r"key: (\{.*?\}\}) payload: (.*)$", done.stdout, re.M)
    ]
    types = Counter(int(key["type"]) for key, _ in records)
    assert types.keys() >= {1, 3, 5, 6, 7, 8, 16}, done.stdout
    said = [value["data"] for key, value in records if key["type"] == "5" and value is not None]
    static, classic = said[0], next(each for each in said if each["classicMemberMetadata"])
    assert (static["instanceId"], static["rackId"], static["serverAssignor"]) == ("i", "r", "range")
    assert static["classicMemberMetadata"] is None
    protocols = classic["classicMemberMetadata"]["supportedProtocols"]
    assert [protocol["name"] for protocol in protocols] == ["range"]
    assert classic["classicMemberMetadata"]["sessionTimeoutMs"] == 45_000
    held = [value["data"] for key, value in records if key["type"] == "8" and value is not None]
    assert {each["memberEpoch"] for each in held} >= {2, 3}
    patterns = [(k["data"], v["data"]) for k, v in records if k["type"] == "16" and v is not None]
    assert patterns[0][0]["regularExpression"] == "t|u"
    assert patterns[0][1]["topics"] == ["t"]


def is_to_have_some(members: Members, member: str, pattern: str) -> bool:
    """Whether it is in the target: the topics of a pattern are found behind the first reply."""
    members.join(member, subscribed_topic_regex=pattern)
    return bool(members.described()["members"][member][-1])


@pytest.mark.long
def test_group_moves_from_apache_kafka_to_kwire_and_back(
    apache_kafka_libs: Path, tmp_path: Path
) -> None:
    """Each broker knows all of what the other has written, and its members go on in their epoch."""
    root = tmp_path / "apache"
    node = ApacheKafka(root, settings=SETTINGS)
    with node, Members.of(node.bootstrap) as members:
        topic_id = fill(members)
        by_apache = members.described()
    assert by_apache["state"] == "Stable"
    broker = BrokerProcess(tmp_path / "kwire", {"node.id": "1", **SETTINGS})
    broker.settings["log.dirs"] = str(root / "data")
    broker.start()
    try:
        with Members.of(broker.bootstrap) as members:
            assert members.described() == by_apache
            assert members.committed(topic_id) == 5
            reply = members.beat("m", 3, instance_id="i", topic_partitions=None)
            assert reply.member_epoch == 3
            assert members.classic_beat("c", 3) == 0
            assert members.commit("c", 3, topic_id, 6) == 0
            members.join("n", "t")
            assert members.classic_beat("c", 3) != 0
            members.classic_join("c", "t")
            by_kwire = members.described()
    finally:
        finish(broker)
    assert by_kwire["state"] == "Reconciling"
    with node, Members.of(node.bootstrap) as members:
        assert members.described() == by_kwire
        assert members.committed(topic_id) == 6
        epoch = by_kwire["epochs"][0]
        reply = members.beat("m", 3, instance_id="i", **owning(topic_id, 0, 1))
        assert reply.member_epoch in (3, epoch)
        assert members.beat("n", epoch).member_epoch == epoch
