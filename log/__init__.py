"""The log engine: the only part of the broker that uses the disk for records.

File names and formats are Apache Kafka's, read and written both ways.
"""

from __future__ import annotations

from kwire.log.append_result import AppendResult
from kwire.log.config import LogConfig
from kwire.log.directory.log_dir import LogDir
from kwire.log.directory.manager import LogManager
from kwire.log.error import LogDirError, LogDirLocked, LogError
from kwire.log.follower import append_as_follower
from kwire.log.log import Log
from kwire.log.markers import MarkerBatch, append_markers
from kwire.log.origin import Origin
from kwire.log.producers.verification import Verification
from kwire.log.reading.cold_lookup import ColdLookup
from kwire.log.reading.lookups import (
    aborted_in,
    aborted_transactions,
    end_offset_for_epoch,
    epoch_for,
    max_timestamp_offset,
    offset_for_timestamp,
)
from kwire.log.reading.region import Region
from kwire.log.reading.time_lookup import TimestampOffset
from kwire.log.recovery.truncation import truncate_fully, truncate_to
from kwire.log.upkeep.job import Job, run_all
from kwire.log.upkeep.maintenance import Intervals
from kwire.log.upkeep.moving import Moves
from kwire.log.upkeep.retention import delete_expired_segments, delete_records
from kwire.log.validator import single_batch, whole_batch_size

__all__ = [
    "AppendResult",
    "ColdLookup",
    "Intervals",
    "Job",
    "Log",
    "LogConfig",
    "LogDir",
    "LogDirError",
    "LogDirLocked",
    "LogError",
    "LogManager",
    "MarkerBatch",
    "Moves",
    "Origin",
    "Region",
    "TimestampOffset",
    "Verification",
    "aborted_in",
    "aborted_transactions",
    "append_as_follower",
    "append_markers",
    "delete_expired_segments",
    "delete_records",
    "end_offset_for_epoch",
    "epoch_for",
    "max_timestamp_offset",
    "offset_for_timestamp",
    "run_all",
    "single_batch",
    "truncate_fully",
    "truncate_to",
    "whole_batch_size",
]
