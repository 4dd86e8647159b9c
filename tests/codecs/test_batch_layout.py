"""The positions of single fields agree with the struct of the whole header."""

from __future__ import annotations

from struct import Struct

import pytest

from kwire.codecs import batch_layout as layout
from kwire.codecs.batch_header import BatchHeader

SAID = BatchHeader(11, 12, 13, 2, 15, 16, 17, 18, 19, 20, 21, 22, 23)
BYTES = layout.HEADER.pack(*SAID)


@pytest.mark.parametrize(
    ("struct", "pos", "fields"),
    [
        (layout.BASE_OFFSET, 0, (SAID.base_offset,)),
        (layout.START, 0, SAID[:3]),
        (layout.LENGTH, layout.LENGTH_POS, (SAID.length,)),
        (layout.LEADER_EPOCH, layout.LEADER_EPOCH_POS, (SAID.partition_leader_epoch,)),
        (Struct(">b"), layout.MAGIC_POS, (SAID.magic,)),
        (layout.CRC, layout.CRC_POS, (SAID.crc,)),
        (layout.ATTRIBUTES, layout.CRC_END, (SAID.attributes,)),
        (layout.ATTRIBUTES, layout.ATTRIBUTES_POS, (SAID.attributes,)),
        (Struct(">b"), layout.FLAGS_POS, (SAID.attributes,)),
        (Struct(">q"), layout.BASE_TIMESTAMP_POS, (SAID.base_timestamp,)),
        (layout.MAX_TIMESTAMP, layout.MAX_TIMESTAMP_POS, (SAID.max_timestamp,)),
        (
            layout.PRODUCER,
            layout.PRODUCER_POS,
            (SAID.producer_id, SAID.producer_epoch, SAID.base_sequence),
        ),
    ],
)
def test_position_of_a_field_agrees_with_the_header(
    struct: Struct, pos: int, fields: tuple[int, ...]
) -> None:
    assert struct.unpack_from(BYTES, pos) == fields


def test_batch_length_counts_the_bytes_after_it() -> None:
    assert layout.LENGTH_POS + layout.LENGTH.size == layout.LOG_OVERHEAD
    assert len(BYTES) == layout.HEADER_SIZE == 61
