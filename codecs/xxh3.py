"""XXH3 with 64 bits and seed 0: Apache Kafka's hash of the topics of a group.

The code follows the specification of xxHash.  A few kilobytes are hashed when a topic changes,
which is not worth a dependency.
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MIX = (0x165667919E3779F9, 0x9FB21C651E98DF25)
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE = 64
_STRIPES_IN_BLOCK = (len(_SECRET) - _STRIPE) // 8
_LANES = struct.Struct("<8Q")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(left: int, right: int) -> int:
    product = left * right
    return (product ^ product >> 64) & _MASK


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _MIX[0] & _MASK
    return value ^ value >> 32


def _avalanche64(value: int) -> int:
    """Return the hash of XXH64's last step, which spreads each bit over all bits."""
    value ^= value >> 33
    value = value * _PRIME64[1] & _MASK
    value ^= value >> 29
    value = value * _PRIME64[2] & _MASK
    return value ^ value >> 32


def xxh3_64(data: bytes) -> int:
    """Return the hash as an unsigned number."""
    size = len(data)
    if size <= 16:
        return _short(data, size)
    if size <= 240:
        return _middle(data, size)
    return _long(data, size)


def _short(data: bytes, size: int) -> int:
    """Return the hash of up to 16 bytes, as XXH3 defines it for 0, 1-3, 4-8 and 9-16 bytes.

    The offsets into the secret and the shifts are constants of the algorithm.
    """
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _MASK)
    if size >= 4:
        value = _u32(data, size - 4) + (_u32(data, 0) << 32)
        value ^= _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= _rotated(value, 49) ^ _rotated(value, 24)
        value = value * _MIX[1] & _MASK
        value ^= (value >> 35) + size
        value = value * _MIX[1] & _MASK
        return value ^ value >> 28
    if size:
        value = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _avalanche64(value ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _mix16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(
        _u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8)
    )


def _middle(data: bytes, size: int) -> int:
    """Return the hash of 17 to 240 bytes; the offsets are constants of the algorithm."""
    total = size * _PRIME64[0]
    if size <= 128:
        for step in reversed(range((size - 1) // 32 + 1)):
            total += _mix16(data, 16 * step, 32 * step)
            total += _mix16(data, size - 16 * (step + 1), 32 * step + 16)
        return _avalanche(total & _MASK)
    for step in range(8):
        total += _mix16(data, 16 * step, 16 * step)
    total = _avalanche(total & _MASK)
    for step in range(8, size // 16):
        total += _mix16(data, 16 * step, 16 * (step - 8) + 3)
    total += _mix16(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _long(data: bytes, size: int) -> int:
    """Return the hash of more than 240 bytes: eight lanes take in stripes of 64 bytes.

    The start values of the lanes and the offsets are constants of the algorithm.
    """
    lanes = [
        _PRIME32[2],
        _PRIME64[0],
        _PRIME64[1],
        _PRIME64[2],
        _PRIME64[3],
        _PRIME32[1],
        _PRIME64[4],
        _PRIME32[0],
    ]
    for stripe in range((size - 1) // _STRIPE):
        place = stripe % _STRIPES_IN_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, place * 8)
        if place == _STRIPES_IN_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64[0]
    for pair in range(4):
        total += _fold(
            lanes[2 * pair] ^ _u64(_SECRET, 11 + 16 * pair),
            lanes[2 * pair + 1] ^ _u64(_SECRET, 19 + 16 * pair),
        )
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    """Mix the stripe at `at` of the data into the lanes, with the secret at `secret_at`."""
    values = _LANES.unpack_from(data, at)
    secrets = _LANES.unpack_from(_SECRET, secret_at)
    for lane in range(8):
        key = values[lane] ^ secrets[lane]
        lanes[lane ^ 1] = lanes[lane ^ 1] + values[lane] & _MASK
        lanes[lane] = lanes[lane] + (key & 0xFFFFFFFF) * (key >> 32) & _MASK


def _scramble(lanes: list[int]) -> None:
    """Mix the lanes after a block of stripes; the shift is a constant of the algorithm."""
    secrets = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for lane in range(8):
        value = lanes[lane]
        value ^= value >> 47 ^ secrets[lane]
        lanes[lane] = value * _PRIME32[0] & _MASK
