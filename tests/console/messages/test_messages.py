"""Pages of messages: reading forward and backward, searching, and going on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.client.cluster import Cluster
from kwire.client.errors import Misuse
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.console.decoding.decoder import Decoder
from kwire.console.messages.query import BadQuery, message_query, positions_of, positions_text
from kwire.console.messages.scan import MessagePage, message_page
from kwire.testing.hosting.process import BrokerProcess

NOW_MS = 1_800_000_000_000
PARTITIONS, RECORDS = 3, 90


@pytest.fixture(scope="module")
def cluster(shared_broker: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(shared_broker.bootstrap) as found:
        yield found


@pytest.fixture(scope="module")
def numbers(cluster: Cluster) -> str:
    """A topic whose values are 0 to 89, with their number as time, in turn in its partitions."""
    topic = "numbers-of-the-console"
    # The records are of 1970, and must not be deleted.
    create_topic(cluster, topic, partitions=PARTITIONS, configs={"retention.ms": "-1"})
    producer = Producer(cluster)
    for number in range(RECORDS):
        producer.send(
            topic, f"number {number}.".encode(), f"key-{number % 10}".encode(),
            partition=number % PARTITIONS, timestamp_ms=1000 + number,
            headers=[("parity", b"odd" if number % 2 else b"even")],
        )  # fmt: skip
        if number % 7 == 0:
            producer.flush()
    producer.flush()
    return topic


def page(cluster: Cluster, topic: str, **parameters: str) -> MessagePage:
    given = {name.removesuffix("_"): value for name, value in parameters.items()}
    return message_page(cluster, topic, message_query(given, NOW_MS), Decoder(), scan_s=60)


def numbers_of(found: MessagePage) -> list[int]:
    return [int(record.text("value").split()[1].rstrip(".")) for record in found.records]


def test_newest_are_first_and_older_pages_follow(cluster: Cluster, numbers: str) -> None:
    first = page(cluster, numbers, limit="25")
    assert numbers_of(first) == list(range(89, 64, -1))
    assert not first.is_complete
    read, at = numbers_of(first), first.at
    while len(read) < RECORDS:
        following = page(cluster, numbers, limit="25", at=positions_text(at))
        read, at = read + numbers_of(following), following.at
    assert read == list(range(89, -1, -1))
    assert following.is_complete
    assert following.share == 1.0


def test_oldest_first_reads_forward_to_the_end(cluster: Cluster, numbers: str) -> None:
    read: list[int] = []
    at = ""
    while len(read) < RECORDS:
        found = page(cluster, numbers, from_="oldest", limit="25", at=at)
        assert numbers_of(found) == list(range(len(read), min(len(read) + 25, RECORDS)))
        read, at = read + numbers_of(found), positions_text(found.at)
    assert found.is_complete
    assert page(cluster, numbers, from_="oldest", at=at).records == []


def test_offset_and_time_are_where_reading_starts(cluster: Cluster, numbers: str) -> None:
    found = page(cluster, numbers, from_="offset", offset="29")
    assert numbers_of(found) == [87, 88, 89]
    assert page(cluster, numbers, from_="offset", offset="30").records == []
    assert numbers_of(page(cluster, numbers, from_="time", time="1970-01-01T00:00:01.080")) == list(
        range(80, 90)
    )


def test_partitions_limit_what_is_read(cluster: Cluster, numbers: str) -> None:
    found = page(cluster, numbers, partitions="1", limit="100")
    assert numbers_of(found) == list(range(88, 0, -3))
    with pytest.raises(Misuse, match="no partition 3"):
        page(cluster, numbers, partitions="1-3")


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"value": "number 7."}, [7]),
        ({"key": "key-4"}, [84, 74, 64, 54, 44, 34, 24, 14, 4]),
        ({"key": "key-4", "header": "parity=odd"}, []),
        ({"header": "none"}, []),
        ({"where": "offset < 1"}, [2, 1, 0]),
        ({"where": 'value matches "[78]8" and key ends "8"', "values": "text"}, [88, 78]),
        ({"where": 'timestamp = 1005 or value = "number 3."', "from": "oldest"}, [3, 5]),
        ({"value": "number 8", "key": "key-8", "where": "offset > 20"}, [88]),
    ],
)
def test_search_finds_what_passes_all_filters(
    cluster: Cluster, numbers: str, parameters: dict[str, str], expected: list[int]
) -> None:
    found = page(cluster, numbers, **parameters)
    assert numbers_of(found) == expected
    assert found.is_complete
    assert found.scanned == RECORDS


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ('value.name = "Ada"', [b'{"name": "Ada"}', b'{"name": "\\u0041da"}']),
        ("value.n = 1500", [b'{"n": 1500}', b'{"n":15e2}', b'{"n": "1.5E3"}', b'{"n": "01500"}']),
        ("value = 1500", [b"1500", b"1500.0", b"+15e2"]),
        ("value.n = -7", [b'{"n": -7}', b'{"n": "-07"}', b'{"n": "\\u002d7"}']),
    ],
)
def test_search_finds_each_way_to_write_what_it_looks_for(
    cluster: Cluster, unique: str, where: str, values: list[bytes]
) -> None:
    create_topic(cluster, unique, partitions=1)
    producer = Producer(cluster)
    for value in [*values, b'{"name": "Bob", "n": 8}']:
        producer.send(unique, value)
        producer.flush()  # each is a batch of its own, which may be skipped
    found = page(cluster, unique, where=where, from_="oldest")
    assert [record.record.value for record in found.records] == values


def test_search_that_is_cut_short_goes_on_where_it_was(cluster: Cluster, numbers: str) -> None:
    read: list[int] = []
    at, pages = "", 0
    while True:
        given = {"header": "parity=odd", "limit": "25", "at": at}
        found = message_page(cluster, numbers, message_query(given, NOW_MS), Decoder(), scan_s=0)
        read, at, pages = read + numbers_of(found), positions_text(found.at), pages + 1
        if found.is_complete:
            break
    assert sorted(read) == list(range(1, 90, 2))
    assert pages > 1


def test_page_of_an_empty_topic_is_complete(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, partitions=2)
    for start in ("newest", "oldest"):
        found = page(cluster, unique, from_=start)
        assert (found.records, found.is_complete, found.share) == ([], True, 1.0)


def test_position_past_the_end_or_before_the_start_is_cut(cluster: Cluster, numbers: str) -> None:
    far = "0:999,1:999,2:999"
    assert numbers_of(page(cluster, numbers, at=far, limit="25"))[0] == 89
    assert page(cluster, numbers, from_="oldest", at=far).records == []
    assert page(cluster, numbers, at="0:0,1:0,2:0").records == []


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("from", "nowhere"), ("offset", "-1"), ("offset", "9" * 30), ("time", "yesterday"),
        ("time", "-99999999999h"), ("partitions", "a"), ("partitions", "4-1"),
        ("partitions", "0-999999999"), ("keys", "xml"), ("where", "value ="), ("at", "0"),
        ("at", "0:1,"), ("value", "x" * 1001),
    ],
)  # fmt: skip
def test_query_that_cannot_be_answered_names_its_parameter(parameter: str, value: str) -> None:
    given = {"from": parameter, parameter: value}
    if parameter not in ("from", "offset", "time"):
        given["from"] = "newest"
    with pytest.raises(BadQuery) as problem:
        message_query(given, NOW_MS)
    assert problem.value.parameter == parameter
    assert str(problem.value).endswith(".")


def test_link_keeps_what_was_given_and_leaves_out_the_position() -> None:
    given = {"from": "time", "time": " -2h ", "where": 'key = "a&b"', "at": "0:1", "stray": "1"}
    query = message_query(given, NOW_MS)
    assert query.time_ms == NOW_MS - 7_200_000
    link = query.link(at="0:5")
    assert link == "?from=time&time=-2h&where=key+%3D+%22a%26b%22&at=0%3A5"
    assert "at=" not in query.link()


def test_positions_are_read_as_they_were_written() -> None:
    positions = {0: 5, 12: 2**62}
    assert positions_of(positions_text(positions)) == positions
