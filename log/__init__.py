"""The log engine: the only part of the broker that uses the disk for records.

File names and formats are Apache Kafka's, read and written both ways.
"""

from __future__ import annotations

from kwire.log.append_result import AppendResult
from kwire.log.config import LogConfig
from kwire.log.directory.log_dir import LogDir
from kwire.log.directory.manager import LogManager
from kwire.log.error import LogDirError, LogDirLocked, LogError
from kwire.log.log import Log
from kwire.log.origin import Origin
from kwire.log.producers.verification import Verification
from kwire.log.reading.cold_lookup import ColdLookup
from kwire.log.reading.region import Region
from kwire.log.reading.time_lookup import TimestampOffset
from kwire.log.upkeep.job import Job, run_all
from kwire.log.upkeep.maintenance import Intervals
from kwire.log.upkeep.moving import Moves
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
    "Moves",
    "Origin",
    "Region",
    "TimestampOffset",
    "Verification",
    "run_all",
    "single_batch",
    "whole_batch_size",
]
