"""XXH3 has the values of hash4j, the library that Apache Kafka 4.3.1 uses."""

from __future__ import annotations

import pytest

from kwire.codecs.xxh3 import xxh3_64

HASHES = {
    0: 0x2D06800538D394C2,
    1: 0x13E608BC156DEFED,
    2: 0x1C9074B93943B86C,
    3: 0xA9088DDA485B481C,
    4: 0x6D9253B16C8B1ED3,
    7: 0x8E8291AD89127E2E,
    8: 0x60539DB630471163,
    9: 0xFEFF668361D723A8,
    12: 0x6829454BE0CC3199,
    16: 0xB8C859B0F030B585,
    17: 0x714A04408E79B80F,
    32: 0x19FF4EE1D6BA1A55,
    33: 0x3E44983AD21679C8,
    64: 0x287EB1FA9E4BE2C1,
    100: 0xB5937857F0D78C9F,
    128: 0x67425A03650261BF,
    129: 0xC664BF3311C6ABC4,
    160: 0xD70DEA8DE694B883,
    200: 0x746CD0025327BF5B,
    240: 0x64556DC6B462A6CF,
    241: 0x8BEADD3A8874FE17,
    256: 0x3C38817F6D79C0DA,
    300: 0xFD9AA0F0D62E0227,
    1000: 0x6C4F14BD97BD9E82,
    1024: 0x9B81661C641C72B1,
    1025: 0x806C2072ED713576,
    2048: 0xABE604813BA62ED1,
    5000: 0x799AADDD7339581D,
    20000: 0xA354C180A98D3853,
}
"""By size, of bytes that count up by seven from three."""


@pytest.mark.parametrize(("size", "expected"), HASHES.items())
def test_xxh3_of_each_input_size_equals_hash4j(size: int, expected: int) -> None:
    assert xxh3_64(bytes((7 * position + 3) % 256 for position in range(size))) == expected
