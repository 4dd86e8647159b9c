"""Cases of Fetch: offsets, size limits, waiting, and sessions."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from kwire.conformance.access.requests import INDEX, TOPIC
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import (
    BIG,
    batch,
    fetch,
    fill,
    filled_topic,
    no_topic,
    produce,
    unknown_topic,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.FETCH)


def access_request(version: int, topic_id: bytes) -> FetchRequest:
    partition = FetchPartition(INDEX, partition_max_bytes=1)
    topics = [FetchTopic(TOPIC, topic_id, [partition])]
    return FetchRequest(max_bytes=1, topics=topics)


@case("from every offset")
def offsets(stage: Stage) -> None:
    topic = filled_topic(stage)
    for offset in range(7):
        stage.send(fetch(topic, offset))


@case("two partitions, one of them empty, an unknown one and an unknown topic")
def mixed(stage: Stage) -> None:
    """One fetch has existing partitions, a missing partition and a missing topic."""
    topic, other = filled_topic(stage), unknown_topic(stage)
    entries = [FetchPartition(i, fetch_offset=0, partition_max_bytes=BIG) for i in (1, 0, 9)]
    lost = [FetchPartition(0, fetch_offset=0, partition_max_bytes=BIG)]
    topics = [FetchTopic(topic.name, topic.id, entries), FetchTopic(other.name, other.id, lost)]
    stage.send(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=BIG, topics=topics))


@case("the same partition twice")
def twice(stage: Stage) -> None:
    """One fetch names a partition twice, at two offsets."""
    topic = filled_topic(stage)
    entries = [FetchPartition(0, fetch_offset=i, partition_max_bytes=BIG) for i in (0, 5)]
    topics = [FetchTopic(topic.name, topic.id, entries)]
    stage.send(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=BIG, topics=topics))


@case("limits in bytes")
def limits(stage: Stage) -> None:
    """Limits of bytes, for a partition and for the response, cut between and within batches."""
    topic = filled_topic(stage)
    for partition_max in (0, 1, 50, 80, 150, 250, 400):
        stage.send(fetch(topic, partition_max_bytes=partition_max))
    for max_bytes in (0, 1, 80, 250):
        stage.send(fetch(topic, max_bytes=max_bytes))


@case("negative limits")
def negative_limits(stage: Stage) -> None:
    topic = filled_topic(stage)
    stage.send(fetch(topic, partition_max_bytes=-1))
    stage.send(fetch(topic, max_bytes=-1))


@case("the first batch is whole, the next partition's not sent")
def first_whole(stage: Stage) -> None:
    """The first batch is returned although it exceeds the limits; the second partition is empty."""
    topic = stage.topic(partitions=2)
    for partition in (0, 1):
        fill(stage, topic, batch(stage, b"x" * 300), partition=partition)
    entries = [FetchPartition(i, fetch_offset=0, partition_max_bytes=10) for i in (0, 1)]
    stage.send(FetchRequest(max_bytes=10, topics=[FetchTopic(topic.name, topic.id, entries)]))


@case("waits until records come")
def wait_for_records(stage: Stage) -> None:
    """A fetch of an empty partition, which may wait for 9 s, is answered when a record arrives."""
    topic = stage.topic()
    stage.begin(fetch(topic, max_wait_ms=9_000, min_bytes=1))
    fill(stage, topic, batch(stage, b"a"))
    stage.end()


@case("waits no longer than it may")
def wait_in_vain(stage: Stage) -> None:
    stage.send(fetch(filled_topic(stage), 6, max_wait_ms=100, min_bytes=1))
    stage.send(fetch(filled_topic(stage), 0, max_wait_ms=100, min_bytes=BIG))


@case("read committed")
def committed(stage: Stage) -> None:
    for offset in (0, 6, 7):
        stage.send(fetch(filled_topic(stage), offset, isolation_level=1))


@case("an isolation level that does not exist")
def isolation(stage: Stage) -> None:
    stage.send(fetch(filled_topic(stage), isolation_level=7))


@case("an isolation level that does not exist, and a session", since=7)
def isolation_session(stage: Stage) -> None:
    topic = filled_topic(stage)
    stage.send(fetch(topic, isolation_level=7, session_id=77, session_epoch=5))
    stage.send(fetch(topic, isolation_level=7, session_epoch=0))


def _place(topic: CaseTopic, **fields: int) -> FetchRequest:
    """Return a fetch of partition 0 with these fields of the partition."""
    request = fetch(topic)
    for name, value in fields.items():
        setattr(request.topics[0].partitions[0], name, value)
    return request


@case("leader epochs", since=9)
def epochs(stage: Stage) -> None:
    topic = filled_topic(stage)
    for epoch in (-1, 0, 1, 100, -2):
        stage.send(_place(topic, current_leader_epoch=epoch))


@case("the epoch of the last record fetched", since=12)
def last_epochs(stage: Stage) -> None:
    """Fetches name the leader epoch of their last record: right, ahead and invalid."""
    topic = filled_topic(stage)
    for epoch in (0, 1, -2):
        stage.send(_place(topic, last_fetched_epoch=epoch, fetch_offset=2))
    stage.send(_place(topic, last_fetched_epoch=0, fetch_offset=60))


@case("a follower that is none, by the old field", until=14)
def follower(stage: Stage) -> None:
    for replica in (5, -2, stage.broker.node_id):
        stage.send(fetch(filled_topic(stage), replica_id=replica))


@case("a follower that is none", since=15)
def follower_state(stage: Stage) -> None:
    stage.send(fetch(filled_topic(stage), replica_state=ReplicaState(5, 1)))


@case("a session: full, nothing new, new records, a forgotten partition, the end", since=7)
def session(stage: Stage) -> None:
    """An incremental session reports only changes: nothing, new records, a forgotten partition.

    Epoch 9 is out of order; epoch -1 ends the session.
    """
    topic = stage.topic(partitions=3)
    fill(stage, topic, batch(stage, b"a"))
    entries = [FetchPartition(i, fetch_offset=0, partition_max_bytes=BIG) for i in range(3)]
    topics = [FetchTopic(topic.name, topic.id, entries)]
    first = stage.send(FetchRequest(session_epoch=0, topics=topics))
    number = first.session_id
    moved = [FetchPartition(0, fetch_offset=1, partition_max_bytes=BIG)]
    topics = [FetchTopic(topic.name, topic.id, moved)]
    stage.send(FetchRequest(session_id=number, session_epoch=1, topics=topics))
    fill(stage, topic, batch(stage, b"b"), partition=1)
    stage.send(FetchRequest(session_id=number, session_epoch=2))
    forgotten = [ForgottenTopic(topic.name, topic.id, [1])]
    stage.send(FetchRequest(session_id=number, session_epoch=3, forgotten_topics_data=forgotten))
    stage.send(FetchRequest(session_id=number, session_epoch=9))
    stage.send(FetchRequest(session_id=number, session_epoch=-1))
    stage.send(FetchRequest(session_id=number, session_epoch=4))


@case("a session is begun anew, and grows", since=7)
def session_anew(stage: Stage) -> None:
    """A session is replaced by a full request (epoch 0), grows by partitions, and recovers from an
    offset that is out of range (60)."""
    topic, more = stage.topic(partitions=2), filled_topic(stage)

    def topics_from(source: CaseTopic, *offsets: int) -> list[FetchTopic]:
        """Return fetches of a topic's partitions 0, 1, ... from these offsets."""
        entries = [FetchPartition(i, fetch_offset=o) for i, o in enumerate(offsets)]
        for place in entries:
            place.partition_max_bytes = BIG
        return [FetchTopic(source.name, source.id, entries)]

    first = stage.send(FetchRequest(session_epoch=0, topics=topics_from(topic, 0, 0)))
    again = FetchRequest(session_id=first.session_id, session_epoch=0, topics=topics_from(topic, 0))
    second = stage.send(again)
    number = second.session_id
    stage.send(FetchRequest(session_id=first.session_id, session_epoch=1))
    stage.send(FetchRequest(session_id=number, session_epoch=1, topics=topics_from(more, 0, 0)))
    stage.send(FetchRequest(session_id=number, session_epoch=2, topics=topics_from(more, 3)))
    stage.send(FetchRequest(session_id=number, session_epoch=3, topics=topics_from(more, 60)))
    stage.send(FetchRequest(session_id=number, session_epoch=4))
    stage.send(FetchRequest(session_id=number, session_epoch=5, topics=topics_from(more, 6)))
    stage.send(FetchRequest(session_id=number, session_epoch=6))


@case("sessions that are not there", since=7)
def no_session(stage: Stage) -> None:
    """Fetches name a session that does not exist (77), or epoch 1 of no session."""
    stage.send(FetchRequest(session_id=77, session_epoch=1))
    stage.send(FetchRequest(session_id=77, session_epoch=0))
    stage.send(FetchRequest(session_id=0, session_epoch=1))
    stage.send(FetchRequest(session_id=77, session_epoch=-1))


@case("a session with partitions that are not there", since=7)
def session_errors(stage: Stage) -> None:
    """A session has a missing partition (9) and an unknown topic; the topic is then forgotten."""
    topic, other = filled_topic(stage), unknown_topic(stage)
    lost = [FetchPartition(i, fetch_offset=0, partition_max_bytes=BIG) for i in (0, 9)]
    topics = [FetchTopic(t.name, t.id, lost) for t in (topic, other)]
    first = stage.send(FetchRequest(session_epoch=0, topics=topics))
    stage.send(FetchRequest(session_id=first.session_id, session_epoch=1))
    forgotten = [ForgottenTopic(other.name, other.id, [0])]
    number = first.session_id
    stage.send(FetchRequest(session_id=number, session_epoch=2, forgotten_topics_data=forgotten))


@case("records by a topic that was deleted")
def deleted(stage: Stage) -> None:
    """A fetch from a deleted topic, then a produce request to it.

    Version 13 is the newest one of Produce.
    """
    topic = stage.topic()
    stage.delete_and_wait(topic)
    stage.send(fetch(topic))
    stage.send(produce(topic, batch(stage, b"a")), min(stage.version, 13))


case.requests(
    {
        "no topics": lambda stage: FetchRequest(max_wait_ms=0),
        "no partitions": lambda stage: FetchRequest(
            topics=[FetchTopic(filled_topic(stage).name, filled_topic(stage).id)]
        ),
        "unknown topic": lambda stage: fetch(unknown_topic(stage)),
        "neither name nor id": lambda stage: fetch(no_topic()),
        "unknown partition": lambda stage: fetch(filled_topic(stage), partition=9),
        "negative partition": lambda stage: fetch(filled_topic(stage), partition=-1),
        "negative offset": lambda stage: fetch(filled_topic(stage), -1),
        "offset beyond the end": lambda stage: fetch(filled_topic(stage), 100),
        "an error does not wait": lambda stage: fetch(
            filled_topic(stage), 100, max_wait_ms=9_000, min_bytes=BIG
        ),
        "empty partition": lambda stage: fetch(filled_topic(stage), partition=1),
    }
)
case.requests(
    {
        "a rack": lambda stage: fetch(filled_topic(stage), rack_id="r1"),
    },
    since=11,
)
case.requests({"a cluster id": lambda stage: fetch(filled_topic(stage), cluster_id="x")}, since=12)
