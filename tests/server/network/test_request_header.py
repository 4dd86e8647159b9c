"""Tagged fields at the end of a request's header: passed over if they may be there (KIP-482)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.requests.context import InvalidFrame
from kwire.server.network.header import skip_tagged_fields
from tests.inside import RawClient, running_broker

BEHIND = b"\x01\x02\x03"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(b"\0", id="none"),
        pytest.param(b"\x80\0", id="none, in two bytes"),
        pytest.param(b"\1\0\0", id="an empty one"),
        pytest.param(b"\1\5\3abc", id="one"),
        pytest.param(b"\2\5\3abc\6\1d", id="two"),
        pytest.param(b"\1\5\x7f" + bytes(127), id="a size of one byte"),
        pytest.param(b"\1\5\x80\1" + bytes(128), id="a size of two bytes"),
        pytest.param(b"\1\5\x85\2" + bytes(261), id="both bytes of a size count"),
        pytest.param(b"\1\xac\2\1x", id="a tag of two bytes"),
        pytest.param(b"\1\xff\xff\xff\xff\7\1x", id="the largest tag"),
        pytest.param(b"\1\5\x80\x80\x80\x80\0", id="a size in five bytes"),
        pytest.param(b"\1\5\x83\x80\x80\x80\x10abc", id="bits above the 32nd do not count"),
        pytest.param(b"\x90\x4e" + b"\5\0" * 10_000, id="ten thousand"),
    ],
)
def test_tagged_fields_end_at_the_request_body(fields: bytes) -> None:
    frame = memoryview(b"head" + fields + BEHIND)
    assert bytes(frame[skip_tagged_fields(frame, 4) :]) == BEHIND


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\1", id="no tag"),
        pytest.param(b"\1\5", id="no size"),
        pytest.param(b"\1\5\x80", id="half a size"),
        pytest.param(b"\2\5\1x", id="one too few"),
        pytest.param(b"\1\5\4abc", id="longer than the request"),
        pytest.param(b"\1\5\x80\x80\x80\x80\x80\0", id="a number of six bytes"),
        pytest.param(b"\xff\xff\xff\xff\x0f", id="fewer than none"),
        pytest.param(b"\x91\x4e" + b"\5\0" * 10_001, id="more than ten thousand"),
    ],
)
def test_tagged_fields_that_are_too_many_or_too_long_are_refused(fields: bytes) -> None:
    with pytest.raises(InvalidFrame):
        skip_tagged_fields(memoryview(b"head" + fields), 4)


def test_tagged_field_may_end_with_the_request() -> None:
    assert skip_tagged_fields(memoryview(b"head\1\5\3abc"), 4) == 10


async def test_request_with_tagged_header_fields_is_answered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        payload = client.frame(request, 3)[4:]
        at = 10 + len("test")
        assert payload[at] == 0
        for tagged in (b"\1\5\3abc", b"\2\5\x85\2" + bytes(261) + b"\6\0"):
            sent = payload[:at] + tagged + payload[at + 1 :]
            await client.stream.send_all(len(sent).to_bytes(4) + sent)
            _, told = await client.receive(ApiVersionsResponse, 3)
            assert told.error_code == 0
            assert told.api_keys
