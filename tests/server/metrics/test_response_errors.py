"""The error codes of responses, counted as a search through all fields finds them."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from kwire.codecs.messages import response_class
from kwire.codecs.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kwire.codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchResponse
from kwire.codecs.messages.produce import PartitionProduceData
from kwire.codecs.primitives import Struct
from kwire.requests.route import Route
from kwire.requests.routes import CLUSTER_ROUTES, ROUTES
from kwire.server.metrics.response_errors import count_errors


def counted(response: Struct) -> dict[int, int]:
    counts: defaultdict[int, int] = defaultdict(int)
    count_errors(response, counts)
    return dict(counts)


def codes_in(value: object) -> Iterator[int]:
    """All values of the field `error_code` in a message, searched everywhere."""
    if isinstance(value, list):
        for element in value:
            yield from codes_in(element)
    elif isinstance(value, Struct):
        for name in value.__slots__:
            inner = getattr(value, name)
            if name == "error_code":
                yield inner
            else:
                yield from codes_in(inner)


def filled(kind: type[Struct], drawn: random.Random) -> Struct:
    """A message in which each list of parts has two of them, with random error codes."""
    values: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # each message is a dataclass
        parts = [hints[field.name], *get_args(hints[field.name])]
        parts = [part for part in parts if isinstance(part, type) and issubclass(part, Struct)]
        if field.name.endswith("error_code"):
            values[field.name] = drawn.randrange(-1, 5)
        elif parts and field.type.startswith("list["):
            values[field.name] = [filled(parts[0], drawn), filled(parts[0], drawn)]
    return kind(**values)


@pytest.mark.parametrize("route", [*ROUTES, *CLUSTER_ROUTES], ids=lambda route: route.api_key.name)
def test_all_error_codes_of_a_response_count(route: Route, request: pytest.FixtureRequest) -> None:
    drawn = random.Random(request.config.getoption("seed"))
    response = filled(response_class(route.api_key), drawn)
    expected = Counter(codes_in(response))
    if isinstance(response, FindCoordinatorResponse | MetadataResponse | OffsetFetchResponse):
        expected[response.error_code] -= 1  # newer versions have the errors in lists
    assert counted(response) == (dict(+expected) or {0: 1})


def test_each_partition_and_topic_of_a_response_counts() -> None:
    partitions = [MetadataResponsePartition(error_code=code) for code in (0, 5, 5)]
    topics = [
        MetadataResponseTopic(name="a", partitions=partitions),
        MetadataResponseTopic(error_code=3, name="b"),
    ]
    assert counted(MetadataResponse(topics=topics)) == {0: 2, 5: 2, 3: 1}


def test_code_at_the_top_counts_if_a_response_has_no_list_instead() -> None:
    """As in Apache Kafka: older versions of these responses have no list of results."""
    assert counted(FindCoordinatorResponse(error_code=15)) == {15: 1}
    found = Coordinator("group", 1, "localhost", 9092, error_code=0)
    assert counted(FindCoordinatorResponse(coordinators=[found, found])) == {0: 2}
    assert counted(OffsetFetchResponse(error_code=16)) == {16: 1}


def test_message_without_a_field_for_error_codes_counts_as_none() -> None:
    assert counted(PartitionProduceData()) == {0: 1}
