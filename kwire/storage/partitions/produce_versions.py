"""The Produce versions from which on zstd batches and topic ids are allowed."""

from __future__ import annotations

ZSTD_SINCE = 7
TOPIC_IDS_SINCE = 13
