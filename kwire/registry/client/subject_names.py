"""Under which subject a record's schema is registered.

Confluent's documentation, "Subject name strategy".
"""

from __future__ import annotations

from enum import StrEnum

from kwire.client.errors import Misuse


class SubjectNames(StrEnum):
    """The strategies, as commands name them."""

    TOPIC = "topic"
    """`TOPIC-key` or `TOPIC-value`: a topic has one type of record (TopicNameStrategy)."""
    RECORD = "record"
    """The name of the record's type, in all topics (RecordNameStrategy)."""
    TOPIC_RECORD = "topic-record"
    """`TOPIC-NAME`, with the name of the record's type (TopicRecordNameStrategy)."""


def subject_of(names: SubjectNames, topic: str, part: str, record_name: str) -> str:
    """The subject for the `key` or `value` of a topic's records.

    Raises Misuse if the strategy needs the name of a type that has none.
    """
    if names is SubjectNames.TOPIC:
        return f"{topic}-{part}"
    if not record_name:
        raise Misuse(
            f"the subject is named by the record's type ({names}), and the schema has no name: "
            "it is no record of Avro, or it is a JSON Schema without a title"
        )
    return record_name if names is SubjectNames.RECORD else f"{topic}-{record_name}"
