"""What an append answers."""

from __future__ import annotations

from typing import NamedTuple


class AppendResult(NamedTuple):
    """Where a batch has got to.

    `log_append_time_ms` is -1 unless the topic's timestamps are LogAppendTime; for a batch that
    was there already (`duplicate`) it is that one's largest timestamp, as with Apache Kafka.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    records_count: int
    size_bytes: int
