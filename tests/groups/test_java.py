"""Java's string hash, compared with results of Java 17; it decides a group's partition."""

from __future__ import annotations

import pytest

from kwire.groups.java import hash_bucket, partition_for, string_hash

ANSWERS = [
    ("", 0, 0),
    ("a", 97, 33),
    ("hello", 99162322, 59),
    ("polygenelubricants", -2147483648, 0),
    ("\u0100\u00ff", 8191, 63),
    ("\U0001f600", 1772899, 56),
    ("console-consumer-12345", 158455506, 35),
    ("g\u00e9", 3426, 34),
    ("\ud800", 55296, 0),
]
"""A text, its hashCode(), and its bucket in a HashMap of 64."""


@pytest.mark.parametrize(("text", "hash_code", "bucket"), ANSWERS)
def test_string_hash_matches_java(text: str, hash_code: int, bucket: int) -> None:
    assert string_hash(text) == hash_code
    assert hash_bucket(text, 64) == bucket
    assert hash_bucket(text) == bucket % 16


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("hello", 99162322 % 50), ("polygenelubricants", 0), ("console-consumer-12345", 6)],
)
def test_partition_for_matches_java(group_id: str, partition: int) -> None:
    """`Utils.abs(groupId.hashCode) % offsets.topic.num.partitions`."""
    assert partition_for(group_id, 50) == partition
