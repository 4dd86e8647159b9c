"""How a record says which schema it has."""

from __future__ import annotations

import pytest

from kwire.registry.client.framing import SchemaFrame, frame_of, framed, guid_header

GUID = "89791762-2336-4186-9674-299b90a802e2"


def test_prefix_has_a_zero_and_the_id_in_four_bytes() -> None:
    assert framed(258, b"xy") == b"\x00\x00\x00\x01\x02xy"
    assert frame_of(b"\x00\x00\x00\x01\x02xy") == SchemaFrame(b"xy", 258)
    assert frame_of(framed(2**31 - 1, b"")) == SchemaFrame(b"", 2**31 - 1)


@pytest.mark.parametrize(
    "raw", [b"", b"\x00", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01x", b"text"]
)
def test_bytes_without_a_whole_prefix_have_no_frame(raw: bytes) -> None:
    assert frame_of(raw) is None


def test_header_with_a_guid_wins_over_the_prefix() -> None:
    headers = [("other", b"x"), guid_header(GUID)]
    found = frame_of(b"\x00\x00\x00\x00\x07x", "value", headers)
    assert found == SchemaFrame(b"\x00\x00\x00\x00\x07x", guid=GUID)
    assert found is not None
    assert found.name == GUID
    assert frame_of(b"\x00\x00\x00\x00\x07x", "key", headers) == SchemaFrame(b"x", 7)


def test_indexes_of_a_message_follow_the_guid_in_the_header() -> None:
    name, value = guid_header(GUID, "key", b"\x02\x02")
    assert name == "__key_schema_id"
    assert value[0] == 1
    assert frame_of(b"body", "key", [(name, value)]) == SchemaFrame(b"\x02\x02body", guid=GUID)


@pytest.mark.parametrize("value", [None, b"", b"\x01" * 16, b"\x00" * 17])
def test_header_that_is_no_guid_is_passed_over(value: bytes | None) -> None:
    assert frame_of(b"body", "value", [("__value_schema_id", value)]) is None
