"""The part of the load that coordinators answer: groups of all kinds, and transactions."""

from __future__ import annotations

from typing import Final

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.conformance.metrics.load import PARTITIONS, SESSION_MS, Load
from kwire.conformance.wire.broker import TRANSACTION, NotReady
from kwire.conformance.wire.cases import consumer_group, share_group, streams_group
from kwire.conformance.wire.cases.build import (
    batch,
    commit,
    create_empty_group,
    create_stable_group,
    fetch,
    produce,
)
from kwire.conformance.wire.cases.txn import (
    CLIENTS,
    WITHOUT_BUMP,
    CaseProducer,
    add,
    end,
    wait_until_ended,
)
from kwire.conformance.wire.cases.txn_data import txn_batch, txn_produce
from kwire.conformance.wire.stage import Stage

HEARTBEATS: Final = 20
TRANSACTIONS: Final = 4
WAIT_MS: Final = 600_000
"""How long the fetch that shows in purgatory waits; the comparison ends before."""


def classic_groups(load: Load) -> None:
    """A classic group with a member that commits, and one whose member has left."""
    coordinator = load.coordinator(load.classic)
    member = create_stable_group(coordinator, load.classic, session_ms=int(SESSION_MS))
    for _ in range(HEARTBEATS):
        coordinator.send(HeartbeatRequest(load.classic, member.generation_id, member.member_id))
    for index in range(PARTITIONS):
        request = commit(
            load.classic,
            load.plain,
            10 + index,
            partition=index,
            member_id=member.member_id,
            generation=member.generation_id,
        )
        coordinator.send(request)
    wanted = [OffsetFetchRequestTopics(load.plain.name, load.plain.id, [*range(PARTITIONS)])]
    groups = [OffsetFetchRequestGroup(load.classic, topics=wanted)]
    coordinator.send(OffsetFetchRequest(groups=groups))
    create_empty_group(load.coordinator(load.idle), load.idle)
    for stage in load.stages.values():
        stage.send(ListGroupsRequest())
    coordinator.send(DescribeGroupsRequest([load.classic]))


def assigned_groups(load: Load) -> None:
    """A consumer group and a streams group, each with a member that sends heartbeats."""
    coordinator = load.coordinator(load.consumers)
    joined = coordinator.send(consumer_group.join(load.consumers, "member", load.plain))
    owned = consumer_group.owning(load.plain, *range(PARTITIONS))
    for _ in range(HEARTBEATS):
        beat = consumer_group.heartbeat(load.consumers, "member", joined.member_epoch, owned)
        coordinator.send(beat)
    coordinator = load.coordinator(load.streamers)
    topology = streams_group.copying(load.plain)
    coordinator.send(streams_group.join(load.streamers, "member", topology))


def share_groups(load: Load) -> None:
    """A member of a share group acquires records, and accepts, releases and rejects some."""
    leader = load.leader(0)
    leader.send(produce(load.queue, batch(leader, *[b"job"] * 9)))
    epoch = load.share_epoch
    leader.send(share_group.fetch(load.sharers, "member", epoch))
    acknowledgements = (
        (1, 3, [share_group.ACCEPT]),
        (4, 5, [share_group.RELEASE]),
        (6, 6, [share_group.REJECT]),
    )
    for number, each in enumerate(acknowledgements, start=1):
        leader.send(
            share_group.acknowledge(load.sharers, "member", epoch + number, load.queue, each)
        )
    load.share_epoch = epoch + len(acknowledgements) + 1


def transactions(load: Load) -> None:
    """Two producers that each commit one transaction and abort the next, and so on.

    The last transaction of the second producer stays open.
    """
    for producer in load.producers:
        coordinator = load.coordinator(producer.transactional_id, TRANSACTION)
        for number in range(TRANSACTIONS):
            partitions = {load.transactional.name: [*range(PARTITIONS)]}
            coordinator.send(add(producer, partitions), CLIENTS)
            for index in range(PARTITIONS):
                stage = load.leader(index)
                records = txn_batch(stage, producer, number)
                request = txn_produce(
                    producer.transactional_id, load.transactional, {index: records}
                )
                stage.send(request)
            if (producer, number) != (load.producers[-1], TRANSACTIONS - 1):
                _end(coordinator, producer, commit=number % 2 == 0)


def _end(coordinator: Stage, producer: CaseProducer, *, commit: bool) -> None:
    """End a transaction, and wait until its markers are written; raises NotReady."""
    reply = coordinator.send(end(producer, commit=commit), WITHOUT_BUMP)
    if reply.error_code:
        raise NotReady(f"EndTxn: {ErrorCode(reply.error_code).name}")
    wait_until_ended(coordinator, producer)


def wait_for_records(load: Load) -> None:
    """Let a fetch wait for more bytes than will come."""
    waiting = fetch(load.plain, 1, max_wait_ms=WAIT_MS, min_bytes=1 << 30)
    load.first.begin(waiting, on="waiting")


STEPS: Final = (classic_groups, assigned_groups, share_groups, transactions, wait_for_records)
"""The steps after those of `load`."""
