"""What responses to members of share groups count for topics."""

from __future__ import annotations

from kwire.codecs.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kwire.server.metrics.meters import Meters
from kwire.server.metrics.topics import count_share_fetch

NAMES = {b"1" * 16: "orders", b"2" * 16: "payments"}


def response(topic_id: bytes, *sizes: int) -> ShareFetchResponse:
    partitions = [PartitionData(index, records=bytes(size)) for index, size in enumerate(sizes)]
    return ShareFetchResponse(responses=[ShareFetchableTopicResponse(topic_id, partitions)])


def test_records_of_share_groups_count_as_bytes_out_of_their_topic() -> None:
    meters = Meters()
    count_share_fetch(meters, response(b"1" * 16, 100, 0, 50), NAMES.get)
    count_share_fetch(meters, response(b"1" * 16, 7), NAMES.get)
    assert meters.topics["orders"].bytes_out == 157
    assert meters.topics["orders"].fetch_requests == 0


def test_share_fetch_without_records_or_of_an_unknown_topic_makes_no_meter() -> None:
    meters = Meters()
    count_share_fetch(meters, response(b"2" * 16, 0), NAMES.get)
    count_share_fetch(meters, response(b"3" * 16, 10), NAMES.get)
    assert not meters.topics
