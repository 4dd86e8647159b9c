"""Varints at the limits of their sizes and types, as in Apache Kafka's ByteUtils."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.codecs.batches import CorruptBatch
from kwire.codecs.varint import VARINTS, ZIGZAG, read_varint, read_varlong, varint

KNOWN = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    -8192: "ff7f",
    8192: "808001",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
}
KNOWN_LONG = {2**63 - 1: "feffffffffffffffff01", -(2**63): "ffffffffffffffffff01"}


@pytest.mark.parametrize("value", KNOWN)
def test_varint_has_the_encoding_of_apache_kafka(value: int) -> None:
    encoded = bytes.fromhex(KNOWN[value])
    assert varint(value) == encoded
    assert read_varint(encoded, 0) == (value, len(encoded))
    assert read_varlong(b"\xff" + encoded, 1) == (value, len(encoded) + 1)


@pytest.mark.parametrize("value", KNOWN_LONG)
def test_varlong_has_the_encoding_of_apache_kafka(value: int) -> None:
    encoded = bytes.fromhex(KNOWN_LONG[value])
    assert varint(value) == encoded
    assert read_varlong(encoded, 0) == (value, len(encoded))


@given(value=st.integers(-(1 << 63), (1 << 63) - 1))
def test_varlong_is_read_as_written(value: int) -> None:
    encoded = varint(value)
    assert read_varlong(encoded, 0) == (value, len(encoded))
    with pytest.raises(IndexError):
        read_varlong(encoded[:-1], 0)


def test_varint_tables_agree_with_the_functions() -> None:
    assert [read_varint(bytes([byte]), 0)[0] for byte in range(128)] == list(ZIGZAG)
    assert [read_varint(data, 0)[0] for data in VARINTS] == list(range(1024))


def test_overlong_varints_are_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="longer than 5"):
        read_varint(b"\x80" * 5 + b"\0", 0)
    with pytest.raises(CorruptBatch, match="longer than 10"):
        read_varlong(b"\x80" * 10 + b"\0", 0)


def test_bits_that_do_not_fit_are_dropped_as_in_java() -> None:
    assert read_varint(b"\x82\x80\x80\x80\x70", 0) == (1, 5)
    assert read_varlong(b"\x82\x80\x80\x80\x80\x80\x80\x80\x80\x7e", 0) == (1, 10)
