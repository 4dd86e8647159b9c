"""The result of an append: the batch's offsets, for the Produce response."""

from __future__ import annotations

from typing import NamedTuple


class AppendResult(NamedTuple):
    """The offsets of an appended batch, its number of records and its size.

    `log_append_time_ms` is -1 unless the topic's timestamp type is LogAppendTime.  `duplicate` says
    that the producer's batch was in the log already: the offsets are those of the earlier append,
    and `log_append_time_ms` is its largest timestamp, as with Apache Kafka.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    records_count: int
    size_bytes: int
