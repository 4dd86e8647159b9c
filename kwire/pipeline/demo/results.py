"""Reads the result topic, compares it with the expected statistics, and shows a table."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition
from rich.table import Table

from kwire.pipeline.demo.flights import Statistics, read_result

TIMEOUT_S = 30.0
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def read_topic(bootstrap: str, topic: str) -> Statistics:
    """The last result of each key in the topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": False})
    try:
        partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        left = 0
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
            left += high - low
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        statistics: Statistics = {}
        while left:
            messages = consumer.consume(left, TIMEOUT_S)
            if not messages:
                raise TimeoutError(f"{left} results of {topic} did not arrive")
            for message in messages:
                if error := message.error():
                    raise KafkaException(error)
                group, delays = read_result(message.value() or b"")
                statistics[group] = delays
            left -= len(messages)
        return statistics
    finally:
        consumer.close()


def differences(expected: Statistics, actual: Statistics, where: str) -> list[str]:
    """A sentence for each group with other figures than expected."""
    return [
        f"{where}: {carrier} in {MONTHS[month - 1]}: {actual.get((carrier, month))},"
        f" expected {expected.get((carrier, month))}"
        for carrier, month in sorted(expected.keys() | actual.keys())
        if expected.get((carrier, month)) != actual.get((carrier, month))
    ]


def table(statistics: Statistics) -> Table:
    """The mean arrival delays in minutes, with a row per carrier and a column per month."""
    shown = Table(title="Mean arrival delay in minutes", title_justify="left")
    shown.add_column("carrier")
    shown.add_column("flights", justify="right")
    for month in MONTHS:
        shown.add_column(month, justify="right")
    for carrier in sorted({carrier for carrier, _ in statistics}):
        of_carrier = {m: delays for (c, m), delays in statistics.items() if c == carrier}
        means = [of_carrier[m].mean_min if m in of_carrier else None for m in range(1, 13)]
        flights = sum(delays.flights for delays in of_carrier.values())
        cells = ["" if mean is None else f"{mean:.1f}" for mean in means]
        shown.add_row(carrier, f"{flights:,}", *cells)
    return shown
