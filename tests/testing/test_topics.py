"""Topics in a test's hands: what is written, what is read, and how a difference is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kwire.testing import Kafka, NotARecord, Record, Topic

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


@pytest.fixture
def topic(kafka: Kafka, unique: str) -> Topic:
    return kafka.create_topic(unique)


def test_python_values_are_written_as_records(topic: Topic) -> None:
    headers: list[tuple[str, bytes | None]] = [("h", b"1")]
    values = [b"\xff", "text", {"a": [1, None]}, 7, None]
    assert topic.seed([*values, Record("v", {"k": 1}, headers, timestamp_ms=5)]) == 6
    found = topic.records()
    assert [record.value for record in found] == [
        b"\xff", b"text", b'{"a":[1,null]}', b"7", None, b"v",
    ]  # fmt: skip
    assert (found[-1].key, found[-1].headers, found[-1].timestamp_ms) == (b'{"k":1}', headers, 5)


def test_value_without_json_is_refused(topic: Topic) -> None:
    with pytest.raises(NotARecord, match="cannot be written as JSON"):
        topic.seed([object()])


def test_topic_is_filled_from_json_lines_and_csv(
    topic: Topic, kafka: Kafka, unique: str, tmp_path: Path
) -> None:
    lines = tmp_path / "orders.jsonl"
    lines.write_text('{"id": 1}\n\n"two"\n')
    assert topic.seed_json_lines(lines) == 2
    topic.assert_holds([{"id": 1}, "two"])
    rows = tmp_path / "orders.csv"
    rows.write_text("id,name\n1,apples\n2,pears\n")
    other = kafka.create_topic(f"{unique}-rows")
    assert other.seed_csv(rows, key="id") == 2
    other.assert_holds(
        [Record({"id": "1", "name": "apples"}, "1"), Record({"id": "2", "name": "pears"}, "2")]
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", "1\n{\n", "a.jsonl, line 2: not JSON"),
        ("a.csv", "a,b\n1\n", "a.csv, line 2: the row and the header differ"),
        ("a.csv", "a,b\n1,2,3\n", "a.csv, line 2: the row and the header differ"),
        ("b.csv", "a\n1\n", "b.csv has no column 'id': a"),
        ("a.saved", '{"key": 1}\n', 'a.saved, line 1: it has no "value"'),
    ],
)
def test_unreadable_file_is_refused_with_its_line(
    topic: Topic, tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    seed: dict[str, Callable[[Path], int]] = {
        "a.jsonl": topic.seed_json_lines,
        "a.csv": topic.seed_csv,
        "b.csv": lambda rows: topic.seed_csv(rows, key="id"),
        "a.saved": topic.seed_saved,
    }
    with pytest.raises(NotARecord, match=said):
        seed[name](path)


def test_saved_topic_is_seeded_again(kafka: Kafka, unique: str, tmp_path: Path) -> None:
    first = kafka.create_topic(unique, partitions=2)
    first.seed(
        [
            Record(b"\xff", "k", [("h", None)], partition=1, timestamp_ms=9),
            Record(None, "k", partition=0, timestamp_ms=8),
        ]
    )
    saved = tmp_path / "saved"
    assert first.save(saved) == 2
    second = kafka.create_topic(f"{unique}-again", partitions=2)
    assert second.seed_saved(saved) == 2
    assert [record[1:] for record in second.records()] == [r[1:] for r in first.records()]


def test_assert_holds_shows_a_diff(topic: Topic) -> None:
    topic.seed([{"id": 1, "fruit": "apples"}, {"id": 2}, Record("x", "k")])
    with pytest.raises(AssertionError) as told:
        topic.assert_holds([{"fruit": "apples", "id": 1}, {"id": 3}])
    lines = str(told.value).splitlines()
    assert lines[0].endswith("holds 3 records (+) instead of the 2 expected ones (-):")
    assert lines[1:] == [
        '    {"fruit": "apples", "id": 1}',
        '  - {"id": 3}',
        "  ?        ^",
        "",
        '  + {"id": 2}',
        "  ?        ^",
        "",
        "  + x",
    ] or lines[1:] == [
        '    {"fruit": "apples", "id": 1}',
        '  - {"id": 3}',
        "  ?        ^",
        '  + {"id": 2}',
        "  ?        ^",
        "  + x",
    ]


def test_keys_are_compared_if_one_is_expected(topic: Topic) -> None:
    topic.seed([Record("v", "k"), Record(None)])
    topic.assert_holds(["v", None])
    topic.assert_holds([Record("v", "k"), None])
    with pytest.raises(AssertionError, match="- other → v"):
        topic.assert_holds([Record("v", "other"), None])


def test_text_and_bytes_are_compared_exactly(topic: Topic) -> None:
    topic.seed(['{"a": 1}', b"\xff\n", "null"])
    topic.assert_holds([b'{"a": 1}', b"\xff\n", b"null"])
    with pytest.raises(AssertionError):
        topic.assert_holds(['{"a":1}', b"\xff\n", "null"])
    with pytest.raises(AssertionError):
        topic.assert_holds(['{"a": 1}', b"\xff\n", None])


def test_order_counts_in_a_topic_of_one_partition(kafka: Kafka, topic: Topic, unique: str) -> None:
    topic.seed(["a", "b"])
    with pytest.raises(AssertionError):
        topic.assert_holds(["b", "a"])
    topic.assert_holds(["b", "a"], in_order=False)
    several = kafka.create_topic(f"{unique}-3", partitions=3)
    several.seed([Record(str(n), partition=2 - n % 3) for n in range(6)])
    several.assert_holds([str(n) for n in range(6)])


def test_assert_holds_waits_for_expected_records(topic: Topic) -> None:
    writer = threading.Timer(0.1, topic.seed, [["late"]])
    writer.start()
    topic.assert_holds(["late"], within_s=60)
    writer.join()
    with pytest.raises(TimeoutError, match="holds 1 records after 0 s instead of 2"):
        topic.wait_for(2, timeout_s=0)


def test_committed_leaves_out_open_transactions(kafka: Kafka, topic: Topic) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic.name})
    producer.init_transactions(60)
    for value, ends in (("kept", True), ("dropped", False)):
        producer.begin_transaction()
        producer.produce(topic.name, value)
        producer.flush(60)
        if ends:
            producer.commit_transaction(60)
    topic.assert_holds(["kept", "dropped"])
    topic.assert_holds(["kept"], committed=True)
    producer.abort_transaction(60)
    topic.assert_holds(["kept"], committed=True)


def test_report_shows_the_last_records_of_each_topic(kafka: Kafka) -> None:
    kafka.reset()
    assert kafka.report() == "no topics"
    kafka.create_topic("b", partitions=2).seed([Record("v", "k", partition=1)])
    kafka.create_topic("a").seed(range(30))
    lines = kafka.report().splitlines()
    assert lines[0] == "a: 1 partitions, 30 records, the last ones:"
    assert lines[1] == "  a-0@10  null → 10"
    assert lines[21:] == ["b: 2 partitions, 1 records", "  b-1@0  k → v"]
