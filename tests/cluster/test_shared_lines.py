"""Reading the lines between the holder and its brokers, whatever pieces they arrive in."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
import trio

from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.shared import lines as shared_lines
from kwire.cluster.stores.shared.lines import JsonObject, encoded, lines

SAID: list[JsonObject] = [
    {"begin": {"cluster_id": "c", "lines": 2}},
    {},
    {"changes": ["é\n", None, 1.5], "version": 2},
    {"event": "controller_gone"},
    {"text": "x" * 5000},
]


class Pieces:
    """A stream that returns these pieces one by one, then ends."""

    def __init__(self, pieces: list[bytes], error: Exception | None = None) -> None:
        self._pieces, self._error = pieces, error

    async def receive_some(self, most_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._pieces:
            return self._pieces.pop(0)
        if self._error is not None:
            raise self._error
        return b""


async def read(pieces: list[bytes], error: Exception | None = None) -> list[JsonObject]:
    stream: Any = Pieces(pieces, error)
    return [message async for message in lines(stream)]


@pytest.mark.parametrize("size_bytes", [1, 2, 7, 4096, 1 << 20])
async def test_lines_are_read_in_pieces_of_any_size(size_bytes: int) -> None:
    data = b"".join(map(encoded, SAID))
    pieces = [data[at : at + size_bytes] for at in range(0, len(data), size_bytes)]
    assert await read(pieces) == SAID


async def test_lines_are_read_in_random_pieces(rng: random.Random) -> None:
    data = b"".join(map(encoded, SAID)) * 3
    for _ in range(20):
        cuts = sorted({0, len(data), *(rng.randrange(len(data)) for _ in range(10))})
        pieces = [data[start:end] for start, end in pairwise(cuts)]
        assert await read(pieces) == SAID * 3


async def test_unfinished_line_is_dropped_at_the_end() -> None:
    assert await read([encoded(SAID[0]), b'{"begin"']) == SAID[:1]


@pytest.mark.parametrize("error", [trio.BrokenResourceError(), trio.ClosedResourceError()])
async def test_connection_that_breaks_ends_the_lines(error: Exception) -> None:
    assert await read([encoded(SAID[0])], error) == SAID[:1]


@pytest.mark.parametrize("line", [b"{", b"GET / HTTP/1.1", b"\xff\xfe", b"[]", b"1", b""])
async def test_line_that_is_not_a_json_object_is_a_store_error(line: bytes) -> None:
    """A StoreError ends this connection only; any other exception would end the holder."""
    with pytest.raises(StoreError, match="a line of the metadata connection is not"):
        await read([line + b"\n"])


async def test_line_above_the_size_limit_is_a_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_lines, "LINE_SIZE_BYTES_MAX", 100)
    with pytest.raises(StoreError, match="longer than 100 bytes"):
        await read([b"x" * 60, b"x" * 60])
    assert await read([b'{"a":"' + b"x" * 60, b"x" * 30 + b'"}\n']) == [{"a": "x" * 90}]
    unfinished = b'{"a":"' + b"x" * 94
    assert len(unfinished) == 100
    assert await read([unfinished, b'"}\n']) == [{"a": "x" * 94}]


def test_line_is_json_without_spaces_in_utf_8() -> None:
    """A snapshot has thousands of lines."""
    assert encoded({"id": 1, "text": ["é", "\n"]}) == '{"id":1,"text":["é","\\n"]}\n'.encode()
