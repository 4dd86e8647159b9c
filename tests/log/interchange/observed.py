"""A broker's answers about all its data: one flat dictionary, to compare with another broker's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from kwire.client.connection import BrokerConnection
from kwire.codecs.batches import iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codecs.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.list_transactions import ListTransactionsRequest
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest
from kwire.codecs.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.log.interchange.filling import GROUPS
from tests.polling import until

Seen = dict[str, Any]

EARLIEST, LATEST, LARGEST = -2, -1, -3
FETCH_BYTES = 1 << 20
SAMPLES = 40
EPOCHS = range(3)
"""Those of two sittings: a node that stops and starts changes a partition's leader twice."""
TOPIC = 2
DYNAMIC_TOPIC_CONFIG = 1
LOADING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def observe(bootstrap: str) -> Seen:
    """Everything that clients can learn of topics, groups and transactions."""
    host, _, port = bootstrap.rpartition(":")
    with closing(
        BrokerConnection(host, int(port), client_id="observer", timeout_s=120)
    ) as connection:
        observer = _Observer(connection)
        observer.wait_until_up()
        return dict(observer.everything())


def observe_settled(bootstrap: str) -> Seen:
    """What clients learn once they learn the same twice in a row.

    After the last response of a transaction kwire appends one more record, some 0.1 s later.
    """
    seen: list[Seen] = [observe(bootstrap)]

    def is_settled() -> bool:
        seen.append(observe(bootstrap))
        return seen[-1] == seen[-2]

    until(is_settled, "clients see something else each time")
    return seen[-1]


def partition_ends(bootstrap: str) -> dict[tuple[str, int], int]:
    """The end offsets of the partitions of clients' topics that have a leader."""
    host, _, port = bootstrap.rpartition(":")
    with closing(
        BrokerConnection(host, int(port), client_id="observer", timeout_s=30)
    ) as connection:
        observer = _Observer(connection)
        return {
            (topic.name, partition.partition_index): observer.end_of(
                topic.name, partition.partition_index
            )
            for topic, partition in observer.partitions()
            if not topic.name.startswith("__") and not partition.error_code
        }


class _Observer:
    def __init__(self, connection: BrokerConnection) -> None:
        self.call = connection.call

    def wait_until_up(self) -> None:
        """Wait until coordinators have loaded their logs and all partitions have a leader."""
        for group in GROUPS:
            until(partial(self._has_coordinator, group), f"no coordinator of {group}")
            until(partial(self._is_loaded, group), f"{group} is not loaded")
        listed = ListTransactionsRequest()
        until(lambda: not self.call(listed).error_code, "transactions are not loaded")
        until(lambda: all(not p.error_code for _, p in self.partitions()), "no leader")

    def _has_coordinator(self, group: str) -> bool:
        return not self.call(FindCoordinatorRequest(key=group), version_max=3).error_code

    def _is_loaded(self, group: str) -> bool:
        fetch = OffsetFetchRequest(group_id=group, topics=None)
        return self.call(fetch, version_max=7).error_code not in LOADING

    def partitions(self) -> Iterator[tuple[Any, Any]]:
        for topic in self.call(MetadataRequest(topics=None)).topics:
            yield from ((topic, partition) for partition in topic.partitions)

    def everything(self) -> Iterator[tuple[str, Any]]:
        for topic, partition in self.partitions():
            name, index = topic.name, partition.partition_index
            yield f"{name} id", topic.topic_id
            if index == 0:
                yield f"{name} configs", self._configs(name)
            for what, seen in self._partition(name, index):
                yield f"{name}-{index} {what}", seen
        for group in GROUPS:
            yield f"group {group}", self._group(group)
        yield from self._transactions()

    def end_of(self, topic: str, index: int) -> int:
        return self._offset(topic, index, LATEST, 0)[1]

    def _configs(self, topic: str) -> dict[str, str]:
        describe = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic, None)])
        (result,) = self.call(describe, version_max=3).results
        return {
            config.name: config.value
            for config in result.configs
            if config.config_source == DYNAMIC_TOPIC_CONFIG
        }

    def _partition(self, topic: str, index: int) -> Iterator[tuple[str, Any]]:
        data = self._all_bytes(topic, index)
        found = [record for at, _ in iter_batches(data) for record in records(data, at)]
        yield "bytes", (len(data), hashlib.sha256(data).hexdigest())
        yield "records", [(r.offset, r.timestamp, r.key, len(r.value or b"")) for r in found]
        for isolation in (0, 1):
            for special in (EARLIEST, LATEST, LARGEST):
                yield (
                    f"offset {special} {isolation}",
                    self._offset(topic, index, special, isolation),
                )
        stamps = sorted({record.timestamp for record in found})
        for stamp in stamps[:: len(stamps) // SAMPLES + 1] + stamps[-1:]:
            for time in (stamp, stamp + 1):
                yield f"at {time}", self._offset(topic, index, time, 0)
        starts = [header.base_offset for _, header in iter_batches(data)]
        for start in starts[:: len(starts) // SAMPLES + 1]:
            yield f"committed from {start}", self._committed(topic, index, start)
        yield "producers", self._producers(topic, index)
        yield "epochs", [self._end_of_epoch(topic, index, epoch) for epoch in EPOCHS]

    def _fetch(self, topic: str, index: int, offset: int, isolation: int) -> PartitionData:
        wanted = FetchTopic(
            topic,
            partitions=[
                FetchPartition(index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            ],
        )
        request = FetchRequest(
            replica_id=-1, topics=[wanted], max_bytes=FETCH_BYTES, isolation_level=isolation
        )
        response = self.call(request, version_max=12)
        answer: PartitionData
        (answer,) = response.responses[0].partitions
        assert not answer.error_code, (topic, index, offset, answer)
        return answer

    def _all_bytes(self, topic: str, index: int) -> bytes:
        at = self._offset(topic, index, EARLIEST, 0)[1]
        end = self._offset(topic, index, LATEST, 0)[1]
        data = bytearray()
        while at < end:
            part = given(self._fetch(topic, index, at, 0))
            before = at
            for position, header in iter_batches(part):
                if header.last_offset >= at:
                    data += part[position : position + header.size_bytes]
                    at = header.last_offset + 1
            if at == before:  # nothing is left behind what was compacted away
                break
        return bytes(data)

    def _committed(self, topic: str, index: int, start: int) -> tuple[object, ...]:
        answer = self._fetch(topic, index, start, 1)
        data = given(answer)
        aborted = sorted((a.producer_id, a.first_offset) for a in answer.aborted_transactions or [])
        return (
            answer.last_stable_offset,
            answer.high_watermark,
            answer.log_start_offset,
            aborted,
            len(data),
            hashlib.sha256(data).hexdigest(),
        )

    def _offset(self, topic: str, index: int, stamp: int, isolation: int) -> tuple[int, ...]:
        wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(index, timestamp=stamp)])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[wanted])
        (answer,) = self.call(request, version_max=7).topics[0].partitions
        found = answer.error_code, answer.offset, answer.timestamp
        return found if stamp < 0 else (*found, answer.leader_epoch)

    def _producers(self, topic: str, index: int) -> list[tuple[int, ...]]:
        (answer,) = self.call(DescribeProducersRequest([TopicRequest(topic, [index])])).topics
        return sorted(
            (
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in answer.partitions[0].active_producers
        )

    def _end_of_epoch(self, topic: str, index: int, epoch: int) -> tuple[int, ...]:
        wanted = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(index, -1, epoch)])
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[wanted])
        (answer,) = self.call(request, version_max=4).topics[0].partitions
        return answer.error_code, answer.leader_epoch, answer.end_offset

    def _group(self, group: str) -> dict[tuple[str, int], tuple[Any, ...]]:
        fetch = OffsetFetchRequest(group_id=group, topics=None)
        return {
            (topic.name, each.partition_index): (
                each.error_code,
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
            )
            for topic in self.call(fetch, version_max=7).topics
            for each in topic.partitions
        }

    def _transactions(self) -> Iterator[tuple[str, Any]]:
        listed = self.call(ListTransactionsRequest()).transaction_states
        names = sorted(each.transactional_id for each in listed)
        described = self.call(DescribeTransactionsRequest(names)).transaction_states
        for each in described:
            topics = sorted((topic.topic, sorted(topic.partitions)) for topic in each.topics)
            yield (
                f"transactional id {each.transactional_id}",
                (
                    each.error_code,
                    each.transaction_state,
                    each.transaction_timeout_ms,
                    each.transaction_start_time_ms,
                    each.producer_id,
                    each.producer_epoch,
                    topics,
                ),
            )


def given(answer: PartitionData) -> bytes:
    """The records of an answer, whole batches and perhaps the beginning of one."""
    assert answer.records is None or isinstance(answer.records, bytes | bytearray | memoryview)
    return bytes(answer.records or b"")


def without(seen: Seen, *endings: str) -> Seen:
    """The observations without those whose names end so."""
    left = {name: value for name, value in seen.items() if not name.endswith(endings)}
    assert len(left) > 100
    return left


def differences(wanted: Seen, found: Seen) -> list[str]:
    """One line for each observation that differs."""
    lines = []
    for name in sorted(wanted.keys() | found.keys()):
        left, right = wanted.get(name, "nothing"), found.get(name, "nothing")
        if left != right:
            lines.append(f"{name}: {left!r:.300} became {right!r:.300}")
    return lines
