"""From which version on Produce may hold what it says; see handlers/produce.py."""

from __future__ import annotations

ZSTD_SINCE = 7
TOPIC_IDS_SINCE = 13
