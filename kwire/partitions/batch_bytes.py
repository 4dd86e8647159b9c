"""Where Produce looks at a record batch before anybody decodes it, and from which version on it may
hold what it says.  The whole layout is kwire.codecs.batch_header's."""

from __future__ import annotations

from struct import Struct

HEADER_SIZE_BYTES = 61
MAGIC = 16
CURRENT_MAGIC = 2
ATTRIBUTES = 22  # the low byte, which has all flags
PRODUCER = Struct(">qhi")  # id, epoch, base sequence
PRODUCER_START = 43

TRANSACTIONAL = 0x10
COMPRESSION_MASK = 0x07
ZSTD = 4  # of the codecs the only one with this bit

ZSTD_SINCE = 7
TOPIC_IDS_SINCE = 13
