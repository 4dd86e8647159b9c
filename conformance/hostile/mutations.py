"""Ways to damage a frame; each one is a function of a random generator and a request's frame."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from struct import pack, pack_into

_SIZE_BYTES = 4
_BOUNDARIES = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x00\x00\x00\x00",
    b"\x00\x10\x00\x00",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff",
    b"\x00\x00",
)
_VARINT_BOUNDARIES = (
    b"\x00",
    b"\x7f",
    b"\xff\x7f",
    b"\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
)


@dataclass(slots=True)
class Attack:
    """A damaged frame: its pieces, sent with a pause after each, and whether to close then."""

    kind: str
    pieces: list[bytes]
    pause_s: float = 0.0
    hangs_up: bool = False


def _frame_attack(kind: str, body: bytes | bytearray) -> Attack:
    """Return a frame with a correct size and the given content."""
    return Attack(kind, [pack(">i", len(body)) + bytes(body)])


def flip_bits(rng: random.Random, frame: bytes) -> Attack:
    """Flip one to eight bits, anywhere behind the size."""
    body = bytearray(frame[_SIZE_BYTES:])
    for _ in range(rng.choice((1, 1, 2, 8))):
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    return _frame_attack("flipped bits", body)


def truncate(rng: random.Random, frame: bytes) -> Attack:
    """Remove the end; the size is adjusted."""
    body = frame[_SIZE_BYTES:]
    return _frame_attack("truncated", body[: rng.randrange(len(body))])


def replace_number(rng: random.Random, frame: bytes) -> Attack:
    """Replace a length, a count or another number by the largest one, a negative one, or 0."""
    body = bytearray(frame[_SIZE_BYTES:])
    number = rng.choice(_BOUNDARIES)
    position = rng.randrange(len(body))
    body[position : position + len(number)] = number
    return _frame_attack("lying number", body)


def replace_varint(rng: random.Random, frame: bytes) -> Attack:
    """Replace a varint, as in compact lengths and counts, by a large or long one, or by 0."""
    body = bytearray(frame[_SIZE_BYTES:])
    position = rng.randrange(len(body))
    body[position : position + 1] = rng.choice(_VARINT_BOUNDARIES)
    return _frame_attack("lying varint", body)


def shift(rng: random.Random, frame: bytes) -> Attack:
    """Remove or insert bytes."""
    body = bytearray(frame[_SIZE_BYTES:])
    position = rng.randrange(len(body))
    if rng.random() < 0.5:
        del body[position : position + rng.randrange(1, 9)]
    else:
        body[position:position] = rng.randbytes(rng.randrange(1, 9))
    return _frame_attack("shifted bytes", body)


def randomise_body(rng: random.Random, frame: bytes) -> Attack:
    """Keep API key and version, and replace the rest by random bytes."""
    return _frame_attack("noise after the key", frame[4:8] + rng.randbytes(rng.randrange(200)))


def noise(rng: random.Random, _frame: bytes) -> Attack:
    """Bytes that are no request, as a port scanner or an HTTP client sends them."""
    http = b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"
    return Attack("noise", [rng.choice((http, rng.randbytes(rng.randrange(1, 300))))], 0.0, True)


def change_version(rng: random.Random, frame: bytes) -> Attack:
    """Set a version that is not served, or one that does not fit the body."""
    body = bytearray(frame[_SIZE_BYTES:])
    version = rng.choice((-1, 0, 1, 5, 9, 12, 17, 99, 32767, -32768))
    pack_into(">h", body, 2, version)
    return _frame_attack("wrong version", body)


def change_key(rng: random.Random, frame: bytes) -> Attack:
    """Set an API key that is not served, or one that does not fit the body."""
    body = bytearray(frame[_SIZE_BYTES:])
    key = rng.choice((-1, rng.randrange(100), rng.randrange(100), 1000, 32767))
    pack_into(">h", body, 0, key)
    return _frame_attack("wrong key", body)


def cut_off(rng: random.Random, frame: bytes) -> Attack:
    """Close the connection in the middle of the frame."""
    return Attack("half sent", [frame[: rng.randrange(1, len(frame))]], 0.0, True)


def replace_size(rng: random.Random, frame: bytes) -> Attack:
    """Set a size that is negative, above the limit, or within it but larger than the frame."""
    size = rng.choice((-1, -(1 << 31), (1 << 31) - 1, 104_857_601, 104_857_600, 50_000_000, 0))
    return Attack("lying size", [pack(">i", size) + frame[_SIZE_BYTES:]], 0.0, True)


def send_slowly(rng: random.Random, frame: bytes) -> Attack:
    """Send the whole, valid frame, but a few bytes at a time."""
    step = max(1, len(frame) // rng.randrange(2, 12))
    pieces = [frame[start : start + step] for start in range(0, len(frame), step)]
    return Attack("slow", pieces, 0.005)


def repeat(rng: random.Random, frame: bytes) -> Attack:
    """Send the request several times without waiting for a response, and close."""
    return Attack("repeated", [frame * rng.randrange(2, 20)], 0.0, True)


_WEIGHTS: dict[Callable[[random.Random, bytes], Attack], int] = {
    flip_bits: 20,
    replace_number: 20,
    replace_varint: 12,
    truncate: 10,
    shift: 10,
    randomise_body: 5,
    cut_off: 5,
    replace_size: 4,
    noise: 3,
    change_version: 4,
    change_key: 3,
    repeat: 3,
    send_slowly: 1,
}
_MUTATIONS = tuple(_WEIGHTS)
_FREQUENCIES = tuple(_WEIGHTS.values())


def mutate(rng: random.Random, frame: bytes) -> Attack:
    """`frame`, which includes its size, damaged in one of these ways."""
    [mutation] = rng.choices(_MUTATIONS, _FREQUENCIES)
    return mutation(rng, frame)
