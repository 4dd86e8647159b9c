"""A broker that looks older than it is, to stock clients and to who asks for more."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import API_NAMES
from kwire.requests.routes import ROUTES
from kwire.testing import Kafka
from kwire.testing.hooks.control.releases import CHANGES
from kwire.testing.hooks.control.versions import NOT_SERVED, of_release, read_max_versions
from kwire.testing.hooks.faults.rules import BadRule
from tests.commands.forked import run_kwire

WAIT_S = 120
CAPS = {"Produce": 7, "Fetch": 11, "Metadata": 8, "FindCoordinator": 2, "JoinGroup": 4}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka(max_versions=CAPS) as broker:
        yield broker


@pytest.mark.slow
def test_stock_clients_use_the_limited_versions(kafka: Kafka) -> None:
    kafka.reset()  # the next broker is as old
    topic = kafka.create_topic("t")
    with kafka.trace() as seen:
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce("t", "v")
        assert producer.flush(120) == 0
        settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "g"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        for _ in range(120):
            message = consumer.poll(1)
            if message is not None:
                break
        consumer.close()
    assert message is not None
    assert message.value() == b"v"
    topic.assert_holds(["v"])
    highest = {
        api: max(event["version"] for event in seen.events if event["api"] == api) for api in CAPS
    }
    assert all(highest[api] <= version for api, version in CAPS.items()), highest
    assert highest["Produce"] == 7
    told = next(event for event in seen.events if event["api"] == "ApiVersions")
    by_key = {each["apiKey"]: each["maxVersion"] for each in told["response"]["apiKeys"]}
    assert (by_key[0], by_key[1], by_key[3], by_key[8]) == (7, 11, 8, 10)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "is_answered"), [(8, True), (9, False)])
def test_request_above_the_limit_is_disconnected(
    kafka: Kafka, version: int, is_answered: bool
) -> None:
    """As by a broker that does not know the version."""
    body = (
        bytes.fromhex("00000000 00 00 00") if version == 8 else bytes.fromhex("00 01 00 00 00 00")
    )
    header = struct.pack(">hhih", 3, version, 1, -1)
    with socket.create_connection(("127.0.0.1", kafka.port), 60) as link:
        link.sendall(struct.pack(">i", len(header + body)) + header + body)
        assert bool(link.recv(4)) is is_answered


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Prduce=7", "did you mean Produce"),
        ("Produce", "Produce is served from version 3 to 13"),
        ("Produce=2", "Produce is served from version 3 to 13"),
        ("Produce=99", "Produce is served from version 3 to 13"),
        ("ApiVersions=2", "the versions of ApiVersions cannot be limited"),
        ("LeaderAndIsr=1", "the versions of LeaderAndIsr cannot"),
        ("1.1", r"release '1\.1' is not known: known are 2\.1, 2\.2, .*, 4\.3"),
        ("2", r"release '2' is not known"),
    ],
)
def test_invalid_max_version_is_refused_with_a_reason(said: str, why: str) -> None:
    with pytest.raises(BadRule, match=why):
        read_max_versions(["Fetch=5", said])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--control", "0", "--max-version", "Prduce=7"], "did you mean Produce"),
        (["--control", "0", "--max-version", "9.9"], "release '9.9' is not known"),
        (["--max-version", "Produce=7"], "--max-version needs --control"),
    ],
)
def test_serve_refuses_an_invalid_max_version(arguments: list[str], why: str) -> None:
    done = run_kwire("serve", *arguments)
    assert done.returncode == 2
    assert why in done.stderr


APIS = {"Produce": 0, "Fetch": 1, "ApiVersions": 18, "CreateTopics": 19, "DescribeCluster": 60}
OF_RELEASES = {
    "2.1": (7, 10, 2, 3, NOT_SERVED),
    "2.4.1": (8, 11, 3, 5, NOT_SERVED),
    "2.8": (9, 12, 3, 7, 0),
    "3.5": (9, 15, 3, 7, 0),
    "3.9.2": (11, 17, 4, 7, 1),
    "4.3": (13, 18, 4, 7, 2),
    "4.4": (13, 18, 5, 7, 2),
}
"""Read off Apache Kafka's documentation of each release."""


@pytest.mark.parametrize("release", OF_RELEASES)
def test_release_has_the_highest_versions_of_apache_kafka(release: str) -> None:
    found = of_release(release)
    assert tuple(found[key] for key in APIS.values()) == OF_RELEASES[release]


def test_newest_release_serves_all_apis_and_versions_never_decrease() -> None:
    newest = list(CHANGES)[-1]
    assert of_release(newest) == {int(each.api_key): each.max_version for each in ROUTES}
    known = [of_release(release) for release in CHANGES]
    gone_with_zookeeper = {38, 39, 40, 41, 50, 51}  # for a while: tokens and SCRAM
    for older, newer in pairwise(known):
        for key, version in older.items():
            assert newer[key] >= version or key in gone_with_zookeeper


def test_limit_of_an_api_overrides_the_release() -> None:
    found = read_max_versions(["Fetch=11", "2.8"])
    assert (found[0], found[1]) == (9, 11)
    with pytest.raises(BadRule, match="only one release"):
        read_max_versions(["2.8", "2.7"])


def api_versions(kafka: Kafka, version: int) -> tuple[int, dict[int, int]]:
    """The error, and of version 0 the APIs that a client is told of, read by hand."""
    header = struct.pack(">hhih", 18, version, 7, -1)
    body = b"" if version < 3 else b"\0" + b"\2k" + b"\0021" + b"\0"
    with socket.create_connection(("127.0.0.1", kafka.port), 60) as link, link.makefile("rb") as it:
        link.sendall(struct.pack(">i", len(header + body)) + header + body)
        data = it.read(struct.unpack(">i", it.read(4))[0])
    error, count = struct.unpack_from(">hi", data, 4)
    if version and not error:
        return error, {}
    rows = (struct.unpack_from(">hhh", data, 10 + 6 * number) for number in range(count))
    return error, {key: high for key, _, high in rows}


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.1", "2.8", "3.9"])
def test_stock_clients_work_with_a_broker_of_that_release(release: str) -> None:
    """Of its versions, and none else."""
    known = of_release(release)
    with Kafka(max_versions=release) as kafka:
        error, told = api_versions(kafka, 0)
        assert error == 0
        assert told == {
            key: high for key, high in known.items() if high != NOT_SERVED and key not in (71, 72)
        }
        refused = {"2.1": (35, {}), "2.8": (35, {18: 3}), "3.9": (0, {})}
        assert api_versions(kafka, 4) == refused[release]
        with kafka.trace() as seen:
            use(kafka)
        asked = {(event["api"], event["version"]) for event in seen.events}
    assert ("Fetch", FETCHED[release]) in asked
    assert {name for name, _ in asked} >= {"CreateTopics", "JoinGroup", "TxnOffsetCommit", "EndTxn"}
    keys = {API_NAMES[key]: key for key in ApiKey}
    assert all(version <= known[keys[name]] for name, version in asked if name != "ApiVersions")


FETCHED = {"2.1": 10, "2.8": 12, "3.9": 16}
"""By librdkafka, which knows none above 16."""


def use(kafka: Kafka) -> None:
    """An administrator, a transactional producer, a consumer in a group."""
    servers = {"bootstrap.servers": kafka.bootstrap}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (made,) = admin.create_topics([NewTopic("t", 1, 1)]).values()
    made.result(WAIT_S)
    producer = Producer({**servers, "transactional.id": "x"})
    producer.init_transactions(WAIT_S)
    consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    for number in range(2):
        producer.begin_transaction()
        producer.produce("t", b"%d" % number)
        if number:
            offsets = [TopicPartition("t", 0, 1)]
            group = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, group, WAIT_S)
        producer.commit_transaction(WAIT_S)
        deadline = time.monotonic() + WAIT_S
        while (message := consumer.poll(1)) is None:
            assert time.monotonic() < deadline
        assert message.value() == b"%d" % number
    consumer.close()
