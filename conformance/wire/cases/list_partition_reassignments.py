"""Cases of ListPartitionReassignments on one broker, which never has any."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.LIST_PARTITION_REASSIGNMENTS)


def access_request(version: int, topic_id: bytes) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(10_000)


def listing(
    *topics: tuple[str, list[int]], timeout_ms: int = 30_000
) -> ListPartitionReassignmentsRequest:
    """Request the reassignments of these partitions."""
    entries = [ListPartitionReassignmentsTopics(*topic) for topic in topics]
    return ListPartitionReassignmentsRequest(timeout_ms, entries)


@case("partitions that are not reassigned")
def settled(stage: Stage) -> None:
    """Topics without reassignments are listed: some, repeated and no partitions."""
    a, b = stage.topic("a", partitions=2), stage.topic("b")
    stage.send(listing((a.name, [0])))
    stage.send(listing((a.name, [0, 1, 1]), (b.name, [0])))
    stage.send(listing((a.name, []), (b.name, [])))


@case("partitions that are not there")
def unknown(stage: Stage) -> None:
    topic = stage.topic()
    stage.send(listing((topic.name, [1, -1])))
    stage.send(listing((stage.name("nothing"), [0]), ("", [0])))


case.requests(
    {
        "all": lambda stage: ListPartitionReassignmentsRequest(),
        "all, no time": lambda stage: ListPartitionReassignmentsRequest(0),
        "no topics": lambda stage: listing(),
        "no time": lambda stage: listing((stage.name("nothing"), [0]), timeout_ms=-1),
    }
)
