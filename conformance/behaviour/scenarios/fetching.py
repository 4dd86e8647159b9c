"""Scenarios of Fetch: limits, waiting, offsets, sessions, and the records that it returns."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kwire.codecs.batches import Compression, Record, build
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kwire.conformance.behaviour.asking import (
    LATEST,
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
    headers,
    list_offsets,
    one_of_session,
)
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import BIG, batch, fetch, fill, produce

scenario = Scenarios("fetching")
NAMES_LAST = 12
"""The last version of Fetch that names topics."""


def several(
    topic: CaseTopic,
    offsets: Sequence[int],
    *,
    each: int = BIG,
    order: Sequence[int] = (),
    max_bytes: int = BIG,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
) -> FetchRequest:
    """A fetch of all partitions of a topic, in `order`; `each` limits the bytes of a partition."""
    partitions = [
        FetchPartition(i, fetch_offset=offsets[i], partition_max_bytes=each)
        for i in order or range(len(offsets))
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic.name, topic.id, partitions)],
    )


@scenario()
def first_batch_is_whole(stage: ScenarioStage) -> None:
    """The first batch is returned whole whatever the limits, but only of the first partition."""
    topic = stage.topic(partitions=3)
    for partition in range(3):
        fill(stage, topic, batch(stage, b"x" * 300), batch(stage, b"y"), partition=partition)
    for in_all, each in ((10, BIG), (BIG, 10), (10, 10), (0, 0)):
        for offset, order in ((0, ()), (2, ()), (2, (2, 1, 0))):
            request = several(topic, (offset, 0, 0), each=each, order=order, max_bytes=in_all)
            stage.send(request)


@scenario()
def limits_between_batches(stage: ScenarioStage) -> None:
    """Batches are returned while they fit, over all partitions; the last one may be cut."""
    topic = stage.topic(partitions=2)
    for partition in range(2):
        for _ in range(4):
            fill(stage, topic, batch(stage, b"x" * 100), partition=partition)
    for size in (1, 100, 168, 169, 170, 337, 338, 339, 500, 676, 677, 1000, 1352, 2000):
        stage.send(several(topic, (0, 0), max_bytes=size))
        stage.send(several(topic, (1, 3), each=size))


@scenario()
def in_the_middle_of_a_batch(stage: ScenarioStage) -> None:
    """A fetch from an offset within a batch returns the whole batch."""
    topic = stage.topic()
    values = [b"%d" % i for i in range(10)]
    fill(stage, topic, batch(stage, *values), batch(stage, *values, compression=Compression.LZ4))
    for offset in (0, 3, 9, 10, 15, 19, 20, 21):
        stage.send(fetch(topic, offset))


@scenario()
def waits_in_vain(stage: ScenarioStage) -> None:
    """Without new records, the response comes at max_wait_ms, not before and not much later."""
    topic = stage.topic()
    with stage.lasts("300 ms", 0.25, 3.0):
        stage.send(fetch(topic, max_wait_ms=300, min_bytes=1))
    with stage.lasts("no wait", 0.0, 0.25):
        stage.send(fetch(topic, max_wait_ms=0, min_bytes=1))
    with stage.lasts("no minimum", 0.0, 0.25):
        stage.send(fetch(topic, max_wait_ms=2000, min_bytes=0))


@scenario()
def waits_for_min_bytes(stage: ScenarioStage) -> None:
    """A fetch waits while there are fewer bytes than its minimum; then it ends at once."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"x" * 100))
    with stage.lasts("one batch is too few", 0.25, 3.0):
        stage.send(fetch(topic, max_wait_ms=300, min_bytes=200))
    stage.begin(fetch(topic, max_wait_ms=9_000, min_bytes=200))
    with stage.lasts("the second is enough", 0.0, 4.0):
        fill(stage, topic, batch(stage, b"x" * 100))
        stage.end()


@scenario()
def waits_over_partitions(stage: ScenarioStage) -> None:
    """The minimum of bytes applies to all partitions together."""
    topic = stage.topic(partitions=3)
    with stage.lasts("both", 0.0, 4.0):
        stage.begin(several(topic, (0, 0, 0), max_wait_ms=9_000, min_bytes=250))
        fill(stage, topic, batch(stage, b"x" * 100), partition=2)
        fill(stage, topic, batch(stage, b"x" * 100), partition=1)
        stage.end()


@scenario()
def an_error_ends_the_wait(stage: ScenarioStage) -> None:
    """An error in one partition ends the wait; the response has the records of the others."""
    topic = stage.topic(partitions=2)
    fill(stage, topic, batch(stage, b"a"))
    with stage.lasts("at once", 0.0, 4.0):
        stage.send(several(topic, (1, 5), max_wait_ms=9_000, min_bytes=1000))


@scenario()
def deleted_while_waiting(stage: ScenarioStage) -> None:
    """A fetch waits while its topic is deleted."""
    topic = stage.topic()
    with stage.lasts("soon", 0.0, 3.5):
        stage.begin(fetch(topic, max_wait_ms=1500, min_bytes=1))
        stage.send(delete_topic(topic.name), on="other")
        stage.end()


@scenario()
def nothing_is_empty_not_null(stage: ScenarioStage) -> None:
    """Without records the field is empty and not null, in every version and with an error too."""
    topic = stage.topic()
    for version in range(4, 19):
        if version <= stage.broker.version_of(FetchRequest()):
            stage.send(fetch(topic), version)
            stage.send(fetch(topic, 5), version)


@scenario()
def sessions_take_turns(stage: ScenarioStage) -> None:
    """A partition with returned records moves behind the other partitions of its session."""
    topic = stage.topic(partitions=3)
    for partition in range(3):
        for _ in range(3):
            fill(stage, topic, batch(stage, b"x" * 200), partition=partition)
    first = stage.send(several(topic, (0, 0, 0), max_bytes=100))
    for epoch in range(1, 6):
        more = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=100)
        stage.send(one_of_session(first.session_id, epoch, more))


@scenario()
def sessions_by_name(stage: ScenarioStage) -> None:
    """A session with topic names cannot continue with topic ids: versions 12 and 13."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a"))
    full = fetch(topic, session_epoch=0)
    first = stage.send(full, NAMES_LAST)
    empty = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=BIG)
    stage.send(one_of_session(first.session_id, 1, empty), NAMES_LAST)
    stage.send(one_of_session(first.session_id, 2, empty), 13)
    stage.send(one_of_session(first.session_id, 2, empty), NAMES_LAST)
    by_id = stage.send(fetch(topic, session_epoch=0), 13)
    stage.send(one_of_session(by_id.session_id, 1, empty), NAMES_LAST)
    stage.send(one_of_session(by_id.session_id, 1, empty), 13)


@scenario()
def session_of_a_recreated_topic(stage: ScenarioStage) -> None:
    """A topic in a session is deleted and created again, which gives it another id."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a"))
    first = stage.send(fetch(topic, session_epoch=0), 13)
    stage.send(delete_topic(topic.name))
    stage.await_controller()
    empty = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=BIG)
    stage.send(one_of_session(first.session_id, 1, empty), 13)
    recreated = stage.topic()
    fill(stage, recreated, batch(stage, b"b"))
    stage.send(one_of_session(first.session_id, 2, empty), 13)
    both = fetch(recreated)
    both.forgotten_topics_data = [ForgottenTopic(topic.name, topic.id, [0])]
    stage.send(one_of_session(first.session_id, 3, both), 13)
    stage.send(one_of_session(first.session_id, 4, empty), 13)


@scenario()
def session_tells_what_changed(stage: ScenarioStage) -> None:
    """A session returns partitions with a new high watermark or log start offset, and no others."""
    topic = stage.topic(partitions=2)
    fill(stage, topic, batch(stage, b"a", b"b"))
    first = stage.send(several(topic, (2, 0)))
    empty = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=BIG)
    stage.send(one_of_session(first.session_id, 1, empty))
    stage.send(delete_records(topic, 1))
    stage.send(one_of_session(first.session_id, 2, empty))
    stage.send(one_of_session(first.session_id, 3, empty))
    fill(stage, topic, batch(stage, b"c"), partition=1)
    stage.send(one_of_session(first.session_id, 4, empty))
    stage.send(one_of_session(first.session_id, 5, empty))  # the same offset: returned again
    stage.send(one_of_session(first.session_id, 5, empty))  # the same epoch twice
    stage.send(one_of_session(first.session_id, 6, empty))


@scenario()
def new_partition_of_a_session(stage: ScenarioStage) -> None:
    """A session returns a partition that did not exist when the session began."""
    topic = stage.topic()
    first = stage.send(several(topic, (0, 0)))
    stage.send(add_partitions(topic.name, 2))
    stage.until("there", lambda: _has_partition(stage, topic, 1))
    empty = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=BIG)
    stage.send(one_of_session(first.session_id, 1, empty))
    stage.send(one_of_session(first.session_id, 2, empty))


def _has_partition(stage: ScenarioStage, topic: CaseTopic, partition: int) -> bool:
    reply = stage.ask(list_offsets(topic, LATEST, partition=partition))
    return not reply.topics[0].partitions[0].error_code


@scenario()
def out_of_range(stage: ScenarioStage) -> None:
    """Offsets before the log start or after the log end are out of range, those between are not."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a", b"b"), batch(stage, b"c", b"d"))
    stage.send(delete_records(topic, 3))
    for offset in (0, 2, 3, 4, 5, -1):
        stage.send(fetch(topic, offset))
    stage.send(fetch(topic, 0, isolation_level=1))


@scenario()
def gaps_in_a_batch(stage: ScenarioStage) -> None:
    """Offsets in a produced batch must be dense; what a broker does with gaps."""
    topic = stage.topic()
    now = stage.now_ms
    records = [Record(0, now, b"k", b"v"), Record(3, now, b"l", b"w")]
    stage.send(produce(topic, build(records, keep_offsets=True)))
    stage.send(produce(topic, build(records, keep_offsets=True, last_offset=7)))
    stage.send(fetch(topic))
    stage.send(list_offsets(topic, LATEST))


@scenario()
def compressions(stage: ScenarioStage) -> None:
    """Batches of each codec, with one record or many, come back as they were sent."""
    topic = stage.topic()
    noise = random.Random(1).randbytes(3000)
    for codec in Compression:
        stage.send(produce(topic, batch(stage, b"a" * 3000, noise, None, b"", compression=codec)))
    for number in range(len(Compression)):
        stage.send(fetch(topic, 4 * number))


@scenario()
def recompressed(stage: ScenarioStage) -> None:
    """compression.type of a topic replaces the producer's codec; the attributes name the codec."""
    for wanted in ("gzip", "zstd", "uncompressed", "producer"):
        topic = stage.topic(wanted, configs={"compression.type": wanted})
        for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY):
            stage.send(produce(topic, batch(stage, b"a" * 300, b"b", compression=codec)))
        reply = stage.ask(fetch(topic))
        data = bytes(reply.responses[0].partitions[0].records)
        stage.note(f"codecs under {wanted}", [header.compression.name for header in headers(data)])


@scenario()
def log_start_moves(stage: ScenarioStage) -> None:
    """DeleteRecords moves the log start offset forward, also into a batch, and never back."""
    topic = stage.topic(partitions=2)
    fill(stage, topic, batch(stage, b"a", b"b", b"c"), batch(stage, b"d"))
    for offset in (0, 1, 1, 0, 2, 5, -2, -1):
        stage.send(delete_records(topic, offset))
        stage.send(fetch(topic, 1))
    stage.send(delete_records(topic, 0, partition=1))
    stage.send(delete_records(topic, 0, partition=7))
    stage.send(produce(topic, batch(stage, b"e")))
    stage.send(fetch(topic, 4))


@scenario()
def headers_and_nulls(stage: ScenarioStage) -> None:
    """Null and empty keys, values and header values stay distinct."""
    topic = stage.topic()
    now = stage.now_ms
    shapes: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (None, None, []),
        (b"", b"", [("", b"")]),
        (b"k", None, [("h", None), ("h", b"1"), ("\u00e9", b"\xff")]),
    ]
    records = [Record(i, now, *shape) for i, shape in enumerate(shapes)]
    stage.send(produce(topic, build(records)))
    stage.send(fetch(topic))


@scenario()
def across_segments(stage: ScenarioStage) -> None:
    """One fetch returns records of one segment; the next fetch continues in the next segment."""
    topic = stage.topic(configs={"segment.bytes": "1048576"})
    for number in range(5):
        fill(stage, topic, batch(stage, bytes([number]) * 400_000))
    for offset in range(6):
        reply = stage.ask(fetch(topic, offset, max_bytes=8 * BIG, partition_max_bytes=8 * BIG))
        partition_data = reply.responses[0].partitions[0]
        stage.note(f"from {offset}", [partition_data.high_watermark, len(partition_data.records)])


@scenario()
def recreated_topic_by_old_id(stage: ScenarioStage) -> None:
    """A topic that is created again has another id, and the old id is unknown."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a"))
    stage.send(delete_topic(topic.name))
    stage.await_controller()
    stage.send(create_topic(topic.name))
    stage.await_controller()
    stage.send(fetch(topic), 13)
    stage.send(produce(topic, batch(stage, b"b")))


SLOTS = 1000
"""The default of max.incremental.fetch.session.cache.slots; recent sessions are not evicted."""


@scenario(alone=True)
def sessions_run_out(stage: ScenarioStage) -> None:
    """If all slots are taken, a fetch gets no session; a session that ends frees its slot.

    Apache Kafka divides the slots among eight shards and puts new sessions into any of them, so
    this opens more sessions than there are slots.
    """
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a"))
    full = fetch(topic, session_epoch=0)
    opened = [stage.ask(full).session_id for _ in range(SLOTS + 400)]
    stage.note("refused", opened.count(0) >= 400)
    stage.send(full)
    stage.note("taken", len(set(opened)) > SLOTS * 3 // 4)
    for session in opened:
        if session:
            stage.ask(one_of_session(session, -1, FetchRequest(max_wait_ms=0)))
    stage.note("free again", stage.ask(fetch(topic, session_epoch=0)).session_id != 0)


@scenario()
def deleted_again_and_again(stage: ScenarioStage) -> None:
    """Topics are created, written, fetched and deleted in quick succession."""
    for number in range(20):
        topic = stage.topic(f"t{number}", partitions=3, configs={"flush.ms": "1"})
        for partition in range(3):
            fill(stage, topic, batch(stage, b"x" * 1000), partition=partition)
        # With topic names: for the id of a topic that is being deleted there are two error codes.
        request = fetch(topic, 1, max_wait_ms=9_000, min_bytes=1)
        stage.begin(request, NAMES_LAST, on="waits")
        stage.ask(delete_topic(topic.name))
        partition_data = stage.end("waits").responses[0].partitions[0]
        stage.note("what the waiting got", partition_data.error_code)
    last = stage.topic()
    stage.send(produce(last, batch(stage, b"a")))
    stage.send(fetch(last))


@scenario()
def hangs_up_while_waiting(stage: ScenarioStage) -> None:
    """Clients that close their connections during a long poll do not disturb other clients."""
    topic = stage.topic()
    for number in range(10):
        name = f"gone {number}"
        stage.begin(fetch(topic, max_wait_ms=9_000, min_bytes=1), on=name)
        stage.close_connection(name)
    stage.begin(fetch(topic, max_wait_ms=9_000, min_bytes=1))
    fill(stage, topic, batch(stage, b"a"))
    stage.end()
