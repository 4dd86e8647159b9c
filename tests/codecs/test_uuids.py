"""Kafka's text form of a uuid."""

from __future__ import annotations

import os

import pytest

from kwire.codecs.uuids import random_uuid, uuid_bytes, uuid_text


def test_uuid_text_is_parsed_as_written() -> None:
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(b"\xfb\xff" * 8) == "-__7__v_-__7__v_-__7_w"
    for _ in range(200):
        made = random_uuid(os.urandom)
        assert uuid_bytes(uuid_text(made)) == made


@pytest.mark.parametrize("text", ["", "x", "AAAA", "A" * 23, "AAAAAAAAAAAAAAAAAAAAA!", "é" * 22])
def test_invalid_uuid_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a uuid in base64"):
        uuid_bytes(text)


def test_random_uuid_has_version_4_and_no_leading_dash() -> None:
    drawn = iter([b"\xfb" * 16, b"\x00" * 16, b"\xff" * 16])
    assert uuid_text(b"\xfb" * 16).startswith("-")
    made = random_uuid(lambda size: next(drawn))
    assert made == bytes.fromhex("00000000000040008000000000000000")
    assert random_uuid(lambda size: next(drawn))[6] >> 4 == 4
