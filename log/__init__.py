"""The log engine: the only part of the broker that uses the disk for records.

File names and formats are Apache Kafka's, read and written both ways.
"""

from __future__ import annotations

from kwire.log.append_result import AppendResult
from kwire.log.cold_lookup import ColdLookup
from kwire.log.config import LogConfig
from kwire.log.error import LogDirError, LogDirLocked, LogError
from kwire.log.job import Job, run_all
from kwire.log.log import Log
from kwire.log.log_dir import LogDir
from kwire.log.maintenance import Intervals
from kwire.log.manager import LogManager
from kwire.log.moving import Moves
from kwire.log.origin import Origin
from kwire.log.region import Region
from kwire.log.time_lookup import TimestampOffset
from kwire.log.validator import single_batch, whole_batch_size
from kwire.log.verification import Verification

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
