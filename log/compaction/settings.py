"""The broker configs of the log cleaner."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The names are Kafka's broker configs, `_` for `.`; the defaults too.

    `log_cleaner_dedupe_buffer_size` is the memory that all workers together may take for the keys
    of a round.  `log.cleaner.io.buffer.load.factor` is not here: it keeps the chains in Kafka's own
    hash table short, and the one used here sees to that itself.
    """

    log_cleaner_enable: bool = True
    log_cleaner_threads: int = 1
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    log_cleaner_io_buffer_size: int = 524_288
    log_cleaner_io_max_bytes_per_second: float = sys.float_info.max

    @property
    def map_bytes_max(self) -> int:
        """The memory in bytes for the keys of one round."""
        return self.log_cleaner_dedupe_buffer_size // max(1, self.log_cleaner_threads)

    @property
    def read_bytes(self) -> int:
        """The bytes of one read of a worker: half of the setting, as Kafka's is for writes, too."""
        # 4,096: one page, for very small settings
        return max(4096, self.log_cleaner_io_buffer_size // max(1, self.log_cleaner_threads) // 2)
