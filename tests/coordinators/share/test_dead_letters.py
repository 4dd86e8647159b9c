"""Dead letters: their headers, where they come from, and why a topic is refused."""

from __future__ import annotations

import pytest

from kwire.codecs.batches import Record, build, records
from kwire.coordinators.share.dead_letters import (
    Cause,
    DeadLetters,
    DeadLetterTopicState,
    LetterOrigin,
    LetterSource,
    origin_of,
    refusal,
    resumed,
)

SOURCE = LetterSource("t", 3, "g")


def letter(source: LetterSource = SOURCE, offset: int = 17, count: int = 2) -> Record:
    return Record(0, 1, None, None, source.headers(offset, count, Cause.EXHAUSTED))


def test_headers_are_text_in_apache_kafkas_order() -> None:
    assert SOURCE.headers(17, 5, Cause.REJECTED) == [
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"17"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"5"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    ]


@pytest.mark.parametrize("topic", ["t", "ü" * 40, "x" * 249])
def test_mark_of_a_source_is_in_its_encoded_dead_letters(topic: str) -> None:
    source = LetterSource(topic, 0, "g")
    assert source.mark in build([letter(source)])
    assert LetterSource(topic + "y", 0, "g").mark not in build([letter(source)])


def test_origin_is_read_from_an_encoded_dead_letter() -> None:
    [record] = records(build([letter()]))
    assert origin_of(record) == LetterOrigin(SOURCE, 17, 2)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        SOURCE.headers(17, 2, Cause.REJECTED)[:4],
        SOURCE.headers(17, 2, Cause.REJECTED)[::-1],
        [("other", b"t"), *SOURCE.headers(17, 2, Cause.REJECTED)[1:]],
        [*SOURCE.headers(17, 2, Cause.REJECTED)[:2], ("__dlq.errors.offset", b"+17")],
        [("a", b"t"), ("b", b"3"), ("c", b"x"), ("d", b"g"), ("e", b"2")],
        [(f"{name}", b"\xff") for name in range(6)],
        [("a", None)] * 6,
    ],
)
def test_other_records_have_no_origin(headers: list[tuple[str, bytes | None]]) -> None:
    assert origin_of(Record(0, 1, None, None, headers)) is None


@pytest.mark.parametrize(
    ("count", "cause"), [(1, Cause.REJECTED), (4, Cause.REJECTED), (5, Cause.EXHAUSTED)]
)
def test_cause_of_resumed_dead_letters_follows_from_the_delivery_count(
    count: int, cause: Cause
) -> None:
    assert resumed(3, 4, count, max_deliveries=5) == DeadLetters(3, 4, count, cause)


@pytest.mark.parametrize(
    ("topic", "state", "expected"),
    [
        ("dlq.t", DeadLetterTopicState(True, True, "dlq.", False), None),
        ("dlq.t", DeadLetterTopicState(False, False, "dlq.", True), None),
        ("other", DeadLetterTopicState(True, True, "", False), None),
        ("", DeadLetterTopicState(False, False, "dlq.", True), "name in share group: g is empty."),
        (
            "__x",
            DeadLetterTopicState(True, True, "", False),
            "Configured DLQ topic name in share group: g cannot start with __, topic: __x.",
        ),
        (
            "dlq.t",
            DeadLetterTopicState(True, False, "dlq.", True),
            "DLQ is not enabled on configured DLQ topic for share group: g, topic: dlq.t.",
        ),
        (
            "dlq.t",
            DeadLetterTopicState(False, False, "dlq.", False),
            "DLQ topic does not exist and auto create is disabled on cluster for share group: g, "
            "topic: dlq.t.",
        ),
        (
            "other",
            DeadLetterTopicState(True, True, "dlq.", False),
            "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: "
            "g, topic: other, prefix: dlq..",
        ),
    ],
)
def test_topic_is_refused_with_apache_kafkas_sentence(
    topic: str, state: DeadLetterTopicState, expected: str | None
) -> None:
    found = refusal("g", topic, state)
    assert found is None if expected is None else (found or "").endswith(expected)
