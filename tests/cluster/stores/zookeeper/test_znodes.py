"""Encoding and decoding of znodes: those of Apache Kafka 3.9.2 (vectors.jsonl), and others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.metadata.entities import ENTITY_RESOURCE
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    TOPIC_RESOURCE,
    BrokerImage,
    Endpoint,
    PartitionImage,
    ResourceKey,
    TopicImage,
)
from kwire.cluster.stores.zookeeper import znodes
from kwire.cluster.stores.zookeeper.java_json import (
    in_properties_order,
    in_scala_order,
    string_hash,
    text_of,
)

VECTORS = [
    json.loads(line)
    for line in Path(__file__).with_name("vectors.jsonl").read_text(encoding="utf-8").splitlines()
]


def written_again(path: str, content: bytes, version: int) -> bytes:
    """A znode's content, decoded and encoded by kwire."""
    fields = json.loads(content)
    if found := re.fullmatch(r"/brokers/ids/(\d+)", path):
        broker = znodes.decode_broker(int(found[1]), content)
        return znodes.encode_broker(broker, int(fields["timestamp"]))
    if re.fullmatch(r"/brokers/topics/[^/]+", path):
        topic = znodes.decode_topic(content)
        assert topic.id is not None
        states = tuple(znodes.new_partition(each) for _, each in sorted(topic.assignments.items()))
        return znodes.encode_topic(TopicImage("any", topic.id, states))
    if path.endswith("/state"):
        return znodes.encode_state(
            znodes.decode_state(content, version, znodes.ReplicaAssignment((1, 2, 3)))
        )
    if path.startswith(znodes.CONFIG_CHANGE):
        key = znodes.decode_config_change(content)
        assert key is not None
        return znodes.encode_config_change(key)
    if path.startswith("/config/"):
        return znodes.encode_configs(znodes.decode_configs(content))
    if path == znodes.PRODUCER_ID_BLOCK:
        end = znodes.decode_next_producer_id(content)
        return znodes.encode_producer_ids(fields["broker"], range(int(fields["block_start"]), end))
    if path == znodes.CONTROLLER:
        return znodes.encode_controller(znodes.decode_controller(content), int(fields["timestamp"]))
    if path == znodes.CONTROLLER_EPOCH:
        return znodes.encode_controller_epoch(znodes.decode_controller_epoch(content))
    if path == znodes.CLUSTER_ID:
        return znodes.encode_cluster_id(znodes.decode_cluster_id(content))
    assert path == znodes.FEATURE
    return znodes.encode_feature(znodes.decode_feature(content, version))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["path"])
def test_znodes_of_apache_kafka_are_decoded_and_encoded_to_equal_bytes(
    vector: dict[str, str],
) -> None:
    content = vector["content"].encode()
    assert written_again(vector["path"], content, int(vector["version"])) == content


def test_vectors_have_every_kind_of_znode() -> None:
    paths = [vector["path"] for vector in VECTORS]
    for part in (
        *("/brokers/ids/", "/state", "/config/topics/", "/config/brokers/<default>"),
        *("/config/users/al%20", "/config/users/<default>/clients/<default>", "/config/clients/"),
        *("/config/ips/", "/config/changes/", "/controller", "/controller_epoch", "/cluster/id"),
        *("/feature", "/latest_producer_id_block"),
    ):
        assert any(part in path for path in paths), part
    assert any('"leader_recovery_state":1' in vector["content"] for vector in VECTORS)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ((TOPIC_RESOURCE, "t.a_b-1"), "topics/t.a_b-1"),
        ((znodes.BROKER_RESOURCE, "1"), "brokers/1"),
        ((znodes.BROKER_RESOURCE, ""), "brokers/<default>"),
        ((znodes.CLIENT_METRICS_RESOURCE, "a b/\u00e9~*"), "client-metrics/a%20b%2F%C3%A9%7E%2A"),
        ((ENTITY_RESOURCE, "users/bob/clients/<default>"), "users/bob/clients/<default>"),
    ],
)
def test_config_resources_have_the_paths_of_apache_kafka(key: ResourceKey, path: str) -> None:
    assert znodes.entity_path(key) == path
    assert znodes.resource_of(path) == key


def test_unknown_config_paths_are_no_resource() -> None:
    assert znodes.resource_of("changes/config_change_1") is None
    assert znodes.resource_of("topics") is None
    assert znodes.decode_config_change(b'{"version":2,"entity_path":"moons/io"}') is None


def test_config_notification_of_version_1_is_decoded() -> None:
    content = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert znodes.decode_config_change(content) == (TOPIC_RESOURCE, "t")


def test_registrations_of_older_and_newer_brokers_are_decoded() -> None:
    first = b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}'
    plain = Endpoint("PLAINTEXT", "h", 9092)
    assert znodes.decode_broker(3, first, 7) == BrokerImage(3, (plain,), None, 7)
    second = b'{"version":2,"host":null,"port":-1,"endpoints":["SSL://h:1"],"jmx_port":-1}'
    assert znodes.decode_broker(3, second).endpoints == (Endpoint("SSL", "h", 1, "SSL"),)
    later = (
        b'{"version":6,"endpoints":["in://[::1]:9"],"listener_security_protocol_map":{"IN":'
        b'"SASL_SSL"},"rack":"r","features":{"f":{"min_version":1,"max_version":2}},"new":[1]}'
    )
    listener = Endpoint("IN", "::1", 9, "SASL_SSL")
    expected = BrokerImage(1, (listener,), "r", -1, {"f": (1, 2)})
    assert znodes.decode_broker(1, later) == expected
    assert znodes.decode_broker(1, znodes.encode_broker(expected, 1)) == expected
    cordoned = replace(expected, log_dirs=("/a", "/b"), cordoned=("*",))
    assert znodes.decode_broker(1, znodes.encode_broker(cordoned, 1)) == cordoned


def test_topic_znodes_of_older_brokers_are_decoded() -> None:
    assert znodes.decode_topic(b'{"version":1,"partitions":{"0":[2,1]}}') == znodes.TopicZnode(
        None, {0: znodes.ReplicaAssignment((2, 1))}
    )


def test_partition_in_reassignment_is_encoded_and_decoded() -> None:
    state = PartitionImage(1, 4, 9, (3, 1, 2), (1, 2), (), (3,), (2,), False, 5)
    topic = TopicImage("t", bytes(range(16)), (state,))
    read = znodes.decode_topic(znodes.encode_topic(topic))
    assert read.id == topic.id
    assert znodes.decode_state(znodes.encode_state(state), 9, read.assignments[0]) == state
    assert znodes.encode_topic(topic) == (
        b'{"partitions":{"0":[3,1,2]},"topic_id":"AAECAwQFBgcICQoLDA0ODw",'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[2]},"version":3}'
    )


def test_requests_and_notifications_of_apache_kafka_are_decoded() -> None:
    asked = {("t", 0): (1, 2), ("u", 3): (2,)}
    assert znodes.decode_reassignments(znodes.encode_reassignments(asked)) == asked
    spaced = b'{"version": 1, "partitions": [{"topic": "t", "partition": 2, "replicas": [1, 3]}]}'
    assert znodes.decode_reassignments(spaced) == {("t", 2): (1, 3)}
    places = (("t", 0), ("u", 1))
    assert znodes.decode_places(znodes.encode_places(places)) == places
    assert znodes.decode_log_dir_event(znodes.encode_log_dir_event(7)) == 7


def test_requests_and_notifications_equal_those_of_apache_kafka() -> None:
    assert znodes.encode_reassignments({("t", 0): (1, 2), ("u", 3): ()}) == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
        b'{"topic":"u","partition":3,"replicas":[]}]}'
    )
    assert znodes.encode_places([("t", 0), ("u", 1)]) == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":1}]}'
    )
    assert znodes.encode_log_dir_event(7) == b'{"version":1,"broker":7,"event":1}'
    assert znodes.encode_config_change((znodes.BROKER_RESOURCE, "")) == (
        b'{"version":2,"entity_path":"brokers/<default>"}'
    )
    assert znodes.encode_producer_ids(3, range(10, 20)) == (
        b'{"version":1,"broker":3,"block_start":"10","block_end":"19"}'
    )
    assert znodes.decode_next_producer_id(None) == znodes.decode_next_producer_id(b"") == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("h:1", "'h:1' is not a listener address"),
        ("A://h", "'A://h' is not a listener address"),
        ("A://h:x", "invalid"),
    ],
)
def test_listener_without_name_host_or_port_is_refused(text: str, reason: str) -> None:
    content = f'{{"version":5,"endpoints":["{text}"]}}'.encode()
    with pytest.raises(ValueError, match=reason):
        znodes.decode_broker(1, content)


def test_registration_of_version_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown version 0 of a broker registration"):
        znodes.decode_broker(1, b'{"version":0,"endpoints":[]}')


def test_registration_names_the_first_plaintext_address_for_old_clients() -> None:
    secret = Endpoint("A", "a", 1, "SSL")
    plain = [Endpoint("B", "::1", 2, "PLAINTEXT"), Endpoint("C", "c", 3, "PLAINTEXT")]
    fields = json.loads(znodes.encode_broker(BrokerImage(1, (secret, *plain)), 5, 9))
    assert (fields["host"], fields["port"], fields["jmx_port"]) == ("::1", 2, 9)
    assert fields["endpoints"] == ["A://a:1", "B://[::1]:2", "C://c:3"]
    assert "rack" not in fields
    fields = json.loads(znodes.encode_broker(BrokerImage(1, (secret,), "r"), 5))
    assert (fields["host"], fields["port"], fields["jmx_port"]) == (None, -1, -1)
    assert (fields["rack"], fields["timestamp"]) == ("r", "5")


@pytest.mark.parametrize("isr", ["7", '"12"', '{"a":1}', "null"])
def test_value_that_is_not_a_list_of_numbers_is_refused(isr: str) -> None:
    content = f'{{"leader":1,"leader_epoch":1,"controller_epoch":1,"isr":{isr}}}'.encode()
    with pytest.raises(TypeError, match="is not a list"):
        znodes.decode_state(content, 0, znodes.ReplicaAssignment(()))


@pytest.mark.parametrize(
    ("content", "configs"),
    [
        (b'{"config":{"a":"1","b":2,"c":null}}', {"a": "1"}),
        (b'{"config":["a"]}', {}),
        (b'["config"]', {}),
        (None, {}),
    ],
)
def test_configs_that_are_not_text_are_ignored(
    content: bytes | None, configs: dict[str, str]
) -> None:
    assert znodes.decode_configs(content) == configs


@pytest.mark.parametrize("count", [0, 1, 11, 12, 13, 23, 24, 25, 47, 48, 200])
def test_hash_table_grows_when_three_quarters_full(count: int) -> None:
    """The hashes of numbers up to 99 ascend, by 31 per ten, so the order is known by hand."""
    names = [str(number) for number in range(count)]
    size = 16
    while count >= size * 3 // 4:
        size *= 2
    buckets = [string_hash(name) & size - 1 for name in in_scala_order(dict.fromkeys(names))]
    assert buckets == sorted(buckets)
    ordered = [*in_properties_order(dict.fromkeys(reversed(names)))]
    buckets = [string_hash(name) & size - 1 for name in ordered]
    assert buckets == sorted(buckets)
    assert sorted(ordered) == sorted(names)


def test_keys_in_one_bucket_are_ordered_by_hash_or_age() -> None:
    entries = dict.fromkeys(["BB", "Aa", "AaBB", "BBAa"])  # Java's classical collisions
    assert string_hash("Aa") == string_hash("BB")
    assert [*in_scala_order(entries)] == [*in_properties_order(entries)]
    in_order = [*in_properties_order(entries)]
    assert in_order.index("BB") < in_order.index("Aa")
    # One whose hash is negative comes before one of its bucket whose hash is not.
    negative = "polygenelubricants"
    assert string_hash(negative) == 1 << 31
    assert [*in_scala_order({"p": 1, negative: 2})] == [negative, "p"]
    assert [*in_properties_order({"p": 1, negative: 2})] == ["p", negative]


@pytest.mark.parametrize("damaged", [b"", b"{", b"null", b"7", b"[]", b'{"version":1}'])
def test_damaged_znode_is_an_error_unlike_an_empty_one(damaged: bytes) -> None:
    assert znodes.decode_configs(damaged) == {}
    for decode in (
        znodes.decode_controller,
        znodes.decode_cluster_id,
        znodes.decode_places,
        znodes.decode_reassignments,
        lambda content: znodes.decode_broker(1, content),
        lambda content: znodes.decode_state(content, 0, znodes.ReplicaAssignment(())),
    ):
        with pytest.raises((ValueError, TypeError, LookupError)):
            decode(damaged)


def test_control_characters_are_written_as_jackson_does() -> None:
    assert text_of({"a": '\x00\x1f\n"\\/\u2028\u00e9'}) == (
        b'{"a":"\\u0000\\u001F\\n\\"\\\\/\xe2\x80\xa8\xc3\xa9"}'
    )
    assert text_of("\\u001f") == b'"\\\\u001f"'


def test_java_string_hash_uses_utf_16_units() -> None:
    assert string_hash("version") == 351608024
    assert string_hash("\U0001f600") == 1772899


@given(
    st.builds(
        PartitionImage,
        leader=st.integers(-1, 9),
        leader_epoch=st.integers(0, 99),
        partition_epoch=st.just(5),
        replicas=st.just((1, 2)),
        isr=st.lists(st.integers(0, 9)).map(tuple),
        recovering=st.booleans(),
        controller_epoch=st.integers(0, 99),
    )
)
def test_any_partition_state_survives_encoding_and_decoding(state: PartitionImage) -> None:
    assignment = znodes.ReplicaAssignment((1, 2))
    assert znodes.decode_state(znodes.encode_state(state), 5, assignment) == state
    assert replace(state, offline=(1,)) != state  # who is away is not written


@given(st.dictionaries(st.text(), st.text()))
def test_any_configs_survive_encoding_and_decoding(configs: dict[str, str]) -> None:
    assert znodes.decode_configs(znodes.encode_configs(configs)) == configs


def test_apache_kafka_is_named_no_feature_and_passes_over_what_is_agreed_on() -> None:
    features = FinalizedFeatures({"f": 0}, {"g": 2}, 7)
    content = znodes.encode_feature(features)
    assert content == (
        b'{"features":{},"version":2,"status":1,"kwire":{"asked":{"f":0},"agreed":{"g":2}}}'
    )
    assert znodes.decode_feature(content, 7) == features


def test_empty_finalized_features_are_encoded_as_by_apache_kafka() -> None:
    content = znodes.encode_feature(FinalizedFeatures(agreed={}))
    assert content == b'{"features":{},"version":2,"status":1}'
    assert znodes.decode_feature(content, 3) == FinalizedFeatures(agreed={}, epoch=3)
