"""Fetch: limits, waiting, offsets, sessions, what is stored and how it comes back."""

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
from kwire.conformance.wire.broker import Topic
from kwire.conformance.wire.cases.build import BIG, batch, fetch, fill, produce

scenario = Scenarios("fetching")
NAMES_LAST = 12
"""The last version of Fetch in which topics go by name."""


def several(
    topic: Topic,
    offsets: Sequence[int],
    *,
    each: int = BIG,
    order: Sequence[int] = (),
    max_bytes: int = BIG,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
) -> FetchRequest:
    """All partitions of a topic at their offsets, in `order`; `each` limits a partition's bytes."""
    places = [
        FetchPartition(i, fetch_offset=offsets[i], partition_max_bytes=each)
        for i in order or range(len(offsets))
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic.name, topic.id, places)],
    )


@scenario(18)
def first_batch_is_whole(stage: ScenarioStage) -> None:
    """Trap 18: the first batch is sent whole whatever the limits; only of the first partition."""
    topic = stage.topic(partitions=3)
    for partition in range(3):
        fill(stage, topic, batch(stage, b"x" * 300), batch(stage, b"y"), partition=partition)
    for in_all, each in ((10, BIG), (BIG, 10), (10, 10), (0, 0)):
        for offset, order in ((0, ()), (2, ()), (2, (2, 1, 0))):
            request = several(topic, (offset, 0, 0), each=each, order=order, max_bytes=in_all)
            stage.send(request)


@scenario(18)
def limits_between_batches(stage: ScenarioStage) -> None:
    """Trap 18: what fits is sent, over partitions too; the last batch may be torn."""
    topic = stage.topic(partitions=2)
    for partition in range(2):
        for _ in range(4):
            fill(stage, topic, batch(stage, b"x" * 100), partition=partition)
    for size in (1, 100, 168, 169, 170, 337, 338, 339, 500, 676, 677, 1000, 1352, 2000):
        stage.send(several(topic, (0, 0), max_bytes=size))
        stage.send(several(topic, (1, 3), each=size))


@scenario(19)
def in_the_middle_of_a_batch(stage: ScenarioStage) -> None:
    """Trap 19: an offset within a batch gives the whole batch."""
    topic = stage.topic()
    values = [b"%d" % i for i in range(10)]
    fill(stage, topic, batch(stage, *values), batch(stage, *values, compression=Compression.LZ4))
    for offset in (0, 3, 9, 10, 15, 19, 20, 21):
        stage.send(fetch(topic, offset))


@scenario(20)
def waits_in_vain(stage: ScenarioStage) -> None:
    """Trap 20: nothing new: the reply comes at max wait, not before and not much after."""
    topic = stage.topic()
    with stage.lasts("300 ms", 0.25, 3.0):
        stage.send(fetch(topic, max_wait_ms=300, min_bytes=1))
    with stage.lasts("no wait", 0.0, 0.25):
        stage.send(fetch(topic, max_wait_ms=0, min_bytes=1))
    with stage.lasts("no minimum", 0.0, 0.25):
        stage.send(fetch(topic, max_wait_ms=2000, min_bytes=0))


@scenario(20)
def waits_for_min_bytes(stage: ScenarioStage) -> None:
    """Trap 20: fewer bytes than the minimum wait on; enough of them end it at once."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"x" * 100))
    with stage.lasts("one batch is too few", 0.25, 3.0):
        stage.send(fetch(topic, max_wait_ms=300, min_bytes=200))
    stage.begin(fetch(topic, max_wait_ms=9_000, min_bytes=200))
    with stage.lasts("the second is enough", 0.0, 4.0):
        fill(stage, topic, batch(stage, b"x" * 100))
        stage.end()


@scenario(20)
def waits_over_partitions(stage: ScenarioStage) -> None:
    """Trap 20: the minimum is of all partitions together."""
    topic = stage.topic(partitions=3)
    with stage.lasts("both", 0.0, 4.0):
        stage.begin(several(topic, (0, 0, 0), max_wait_ms=9_000, min_bytes=250))
        fill(stage, topic, batch(stage, b"x" * 100), partition=2)
        fill(stage, topic, batch(stage, b"x" * 100), partition=1)
        stage.end()


@scenario(20)
def an_error_ends_the_wait(stage: ScenarioStage) -> None:
    """Trap 20: an error in one partition is told at once, with what the others have."""
    topic = stage.topic(partitions=2)
    fill(stage, topic, batch(stage, b"a"))
    with stage.lasts("at once", 0.0, 4.0):
        stage.send(several(topic, (1, 5), max_wait_ms=9_000, min_bytes=1000))


@scenario(20)
def deleted_while_waiting(stage: ScenarioStage) -> None:
    """Trap 20: a topic deleted under a waiting fetch."""
    topic = stage.topic()
    with stage.lasts("soon", 0.0, 3.5):
        stage.begin(fetch(topic, max_wait_ms=1500, min_bytes=1))
        stage.send(delete_topic(topic.name), on="other")
        stage.end()


@scenario(21)
def nothing_is_empty_not_null(stage: ScenarioStage) -> None:
    """Trap 21: no records are an empty field in every version; an error has one too."""
    topic = stage.topic()
    for version in range(4, 19):
        if version <= stage.broker.version_of(FetchRequest()):
            stage.send(fetch(topic), version)
            stage.send(fetch(topic, 5), version)


@scenario(22)
def sessions_take_turns(stage: ScenarioStage) -> None:
    """Trap 22: a partition that was served goes behind the others of its session."""
    topic = stage.topic(partitions=3)
    for partition in range(3):
        for _ in range(3):
            fill(stage, topic, batch(stage, b"x" * 200), partition=partition)
    first = stage.send(several(topic, (0, 0, 0), max_bytes=100))
    for epoch in range(1, 6):
        more = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=100)
        stage.send(one_of_session(first.session_id, epoch, more))


@scenario(22)
def sessions_by_name(stage: ScenarioStage) -> None:
    """Trap 22: a session by name is not one by id: versions 12 and 13 in one session."""
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


@scenario(22)
def session_of_a_recreated_topic(stage: ScenarioStage) -> None:
    """Trap 22: a topic is deleted and made again under a session: its id is another."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a"))
    first = stage.send(fetch(topic, session_epoch=0), 13)
    stage.send(delete_topic(topic.name))
    stage.settle()
    empty = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=BIG)
    stage.send(one_of_session(first.session_id, 1, empty), 13)
    made = stage.topic()
    fill(stage, made, batch(stage, b"b"))
    stage.send(one_of_session(first.session_id, 2, empty), 13)
    both = fetch(made)
    both.forgotten_topics_data = [ForgottenTopic(topic.name, topic.id, [0])]
    stage.send(one_of_session(first.session_id, 3, both), 13)
    stage.send(one_of_session(first.session_id, 4, empty), 13)


@scenario(22)
def session_tells_what_changed(stage: ScenarioStage) -> None:
    """Trap 22: high watermark and log start alone are news; the rest is silence."""
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
    stage.send(one_of_session(first.session_id, 5, empty))  # not moved on: told again
    stage.send(one_of_session(first.session_id, 5, empty))  # an epoch twice
    stage.send(one_of_session(first.session_id, 6, empty))


@scenario(22)
def new_partition_of_a_session(stage: ScenarioStage) -> None:
    """Trap 22: a partition asked before it was there is found once it is."""
    topic = stage.topic()
    first = stage.send(several(topic, (0, 0)))
    stage.send(add_partitions(topic.name, 2))
    stage.until("there", lambda: _has(stage, topic, 1))
    empty = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=BIG)
    stage.send(one_of_session(first.session_id, 1, empty))
    stage.send(one_of_session(first.session_id, 2, empty))


def _has(stage: ScenarioStage, topic: Topic, partition: int) -> bool:
    reply = stage.ask(list_offsets(topic, LATEST, partition=partition))
    return not reply.topics[0].partitions[0].error_code


@scenario(23, 49)
def out_of_range(stage: ScenarioStage) -> None:
    """Traps 23 and 49: OFFSET_OUT_OF_RANGE before the start and after the end, never between."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a", b"b"), batch(stage, b"c", b"d"))
    stage.send(delete_records(topic, 3))
    for offset in (0, 2, 3, 4, 5, -1):
        stage.send(fetch(topic, offset))
    stage.send(fetch(topic, 0, isolation_level=1))


@scenario(24, 48)
def gaps_in_a_batch(stage: ScenarioStage) -> None:
    """Traps 24 and 48: a client's batch must be dense; what a broker makes of one with gaps."""
    topic = stage.topic()
    now = stage.now_ms
    holes = [Record(0, now, b"k", b"v"), Record(3, now, b"l", b"w")]
    stage.send(produce(topic, build(holes, keep_offsets=True)))
    stage.send(produce(topic, build(holes, keep_offsets=True, last_offset=7)))
    stage.send(fetch(topic))
    stage.send(list_offsets(topic, LATEST))


@scenario(26)
def compressions(stage: ScenarioStage) -> None:
    """Trap 26: each codec, in one record and in many, comes back as it was sent."""
    topic = stage.topic()
    noise = random.Random(1).randbytes(3000)
    for codec in Compression:
        stage.send(produce(topic, batch(stage, b"a" * 3000, noise, None, b"", compression=codec)))
    for number in range(len(Compression)):
        stage.send(fetch(topic, 4 * number))


@scenario(26)
def recompressed(stage: ScenarioStage) -> None:
    """Trap 26: a topic's own compression replaces the client's; attributes say which."""
    for wanted in ("gzip", "zstd", "uncompressed", "producer"):
        topic = stage.topic(wanted, configs={"compression.type": wanted})
        for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY):
            stage.send(produce(topic, batch(stage, b"a" * 300, b"b", compression=codec)))
        reply = stage.ask(fetch(topic))
        data = bytes(reply.responses[0].partitions[0].records)
        stage.note(f"codecs under {wanted}", [header.compression.name for header in headers(data)])


@scenario()
def log_start_moves(stage: ScenarioStage) -> None:
    """DeleteRecords moves the start, also into a batch; it never moves back."""
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
    """Null and empty keys, values and header values are kept apart."""
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
    """One fetch gives what one segment has; the next one goes on from there."""
    topic = stage.topic(configs={"segment.bytes": "1048576"})
    for number in range(5):
        fill(stage, topic, batch(stage, bytes([number]) * 400_000))
    for offset in range(6):
        reply = stage.ask(fetch(topic, offset, max_bytes=8 * BIG, partition_max_bytes=8 * BIG))
        found = reply.responses[0].partitions[0]
        stage.note(f"from {offset}", [found.high_watermark, len(found.records)])


@scenario()
def recreated_topic_by_old_id(stage: ScenarioStage) -> None:
    """A topic's id dies with it: the new topic of that name has another."""
    topic = stage.topic()
    fill(stage, topic, batch(stage, b"a"))
    stage.send(delete_topic(topic.name))
    stage.settle()
    stage.send(create_topic(topic.name))
    stage.settle()
    stage.send(fetch(topic), 13)
    stage.send(produce(topic, batch(stage, b"b")))


SLOTS = 1000
"""max.incremental.fetch.session.cache.slots, by default; young sessions are not displaced."""


@scenario(22, alone=True)
def sessions_run_out(stage: ScenarioStage) -> None:
    """Trap 22: with all slots taken a fetch is served without a session; one that ends frees one.

    Apache Kafka deals the slots to eight shards and new sessions to any of them: hence the spare.
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
    """Topics that come and go while they are written, flushed and read leave nothing broken."""
    for number in range(20):
        topic = stage.topic(f"t{number}", partitions=3, configs={"flush.ms": "1"})
        for partition in range(3):
            fill(stage, topic, batch(stage, b"x" * 1000), partition=partition)
        # By name: by its id, a topic that goes may be told as unknown in two ways.
        asked = fetch(topic, 1, max_wait_ms=9_000, min_bytes=1)
        stage.begin(asked, NAMES_LAST, on="waits")
        stage.ask(delete_topic(topic.name))
        found = stage.end("waits").responses[0].partitions[0]
        stage.note("what the waiting got", found.error_code)
    last = stage.topic()
    stage.send(produce(last, batch(stage, b"a")))
    stage.send(fetch(last))


@scenario()
def hangs_up_while_waiting(stage: ScenarioStage) -> None:
    """A client that goes away under its long poll takes nobody with it."""
    topic = stage.topic()
    for number in range(10):
        name = f"gone {number}"
        stage.begin(fetch(topic, max_wait_ms=9_000, min_bytes=1), on=name)
        stage.close_connection(name)
    stage.begin(fetch(topic, max_wait_ms=9_000, min_bytes=1))
    fill(stage, topic, batch(stage, b"a"))
    stage.end()
