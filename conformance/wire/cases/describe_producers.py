"""Cases of DescribeProducers: the active producers of a partition."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.conformance.access.requests import INDEX, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import batch, fill, filled_topic, unknown_topic
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DESCRIBE_PRODUCERS)


def access_request(version: int, topic_id: bytes) -> DescribeProducersRequest:
    return DescribeProducersRequest([TopicRequest(TOPIC, [INDEX])])


@case("an idempotent producer")
def idempotent(stage: Stage) -> None:
    """After two batches of two records the producer's last sequence number is reported."""
    topic = stage.topic()
    mine = stage.ask(InitProducerIdRequest(None, 60_000), 3)
    for sequence in (0, 2):
        records = batch(
            stage,
            b"a",
            b"b",
            producer_id=mine.producer_id,
            producer_epoch=mine.producer_epoch,
            base_sequence=sequence,
        )
        fill(stage, topic, records)
    stage.send(DescribeProducersRequest([TopicRequest(topic.name, [0])]))


def _ask(stage: Stage, *partitions: int) -> DescribeProducersRequest:
    return DescribeProducersRequest([TopicRequest(filled_topic(stage).name, list(partitions))])


case.requests(
    {
        "nobody": lambda stage: _ask(stage, 0, 1),
        "unknown partitions": lambda stage: _ask(stage, 9, -1, 0),
        "the same partition twice": lambda stage: _ask(stage, 0, 0),
        "no partitions": lambda stage: _ask(stage),
        "an unknown topic": lambda stage: DescribeProducersRequest(
            [TopicRequest(unknown_topic(stage).name, [0])]
        ),
        "names that no topic can have": lambda stage: DescribeProducersRequest(
            [TopicRequest("", [0]), TopicRequest("a b", [0])]
        ),
    }
)
