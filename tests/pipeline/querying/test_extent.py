"""The most records that a query reads, by the offsets of the topics whose names are in its SQL."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.client.cluster import Cluster
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.pipeline import Kafka, Query, ToFunction, View
from kwire.pipeline.querying.extent import names_in, records_max, records_read
from kwire.testing import BrokerProcess


def query(sql: str, at: str = "localhost:9092", **options: Any) -> Query:  # noqa: ANN401 - as Query has them
    """A query that ends, unless `options` say otherwise."""
    sink = ToFunction(lambda rows, batch: None)
    return Query(sql, sink, Kafka(at), **{"once": True, **options})


def test_names_in_sql_are_words_and_what_backquotes_hold() -> None:
    assert names_in("SELECT f.x FROM flights--all\n f, `my.topic-1` m") == {
        *("SELECT", "f", "x", "FROM", "flights", "all", "my.topic-1", "m")
    }


def test_number_of_records_is_that_of_all_topics_of_one_micro_batch() -> None:
    tables = {"planes": View(table=True)}
    records = {"flights": 1_000, "planes": 3_000}
    assert records_read(query("SELECT 1", views=tables), records) == 4_000
    for batch, expected in ((1_000, 4_000), (999, None)):
        batches = query("SELECT 1", views=tables, records_per_batch=batch)
        assert records_read(batches, records) == expected
    assert records_read(query("SELECT 1"), {}) is None


def test_number_of_records_is_that_of_the_topics_in_the_sql(
    shared_broker: BrokerProcess, unique: str
) -> None:
    at, dotted = shared_broker.bootstrap, f"{unique}.b"
    with Cluster(at) as cluster:
        producer = Producer(cluster)
        for topic, count in ((unique, 3), (dotted, 2)):
            create_topic(cluster, topic, partitions=2)
            for _ in range(count):
                producer.send(topic, b"{}")
        producer.flush()
    assert records_max(query(f"SELECT * FROM `{unique}`", at)) == 3
    assert records_max(query(f"SELECT * FROM `{unique}` JOIN `{dotted}` USING (_key)", at)) == 5
    assert records_max(query(f"SELECT * FROM `{unique}`", at, starting=2**45)) == 0
    tables = {unique: View(table=True)}
    assert records_max(query(f"SELECT * FROM `{unique}`", at, starting=2**45, views=tables)) == 3


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("SELECT * FROM a", {}),
        ("SELECT * FROM a", {"once": False}),
        ("SELECT * FROM IDENTIFIER('a' || 'b')", {}),
        ("SELECT * FROM ${spark.topic}", {}),
    ],
)
def test_number_of_records_is_unknown_without_an_answer_an_end_or_the_names(
    nobody: str, sql: str, options: dict[str, Any]
) -> None:
    assert records_max(query(sql, nobody, **options)) is None
