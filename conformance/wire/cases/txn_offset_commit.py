"""Cases of TxnOffsetCommit: each kind of producer and member, and when offsets become visible."""

from __future__ import annotations

from collections.abc import Callable

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.conformance.access.requests import GROUP, INDEX, TOPIC, TRANSACTION
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases import streams_group
from kwire.conformance.wire.cases.build import (
    commit,
    create_empty_group,
    create_stable_group,
    filled_topic,
    join_first_member,
    no_topic,
    unknown_topic,
)
from kwire.conformance.wire.cases.consumer_group import WORDS, groups_in_each_state
from kwire.conformance.wire.cases.offset_fetch import ask as ask_offsets
from kwire.conformance.wire.cases.txn import CaseProducer, create_producer, end_transaction
from kwire.conformance.wire.cases.txn_data import add_group, txn_commit
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.TXN_OFFSET_COMMIT)


def access_request(version: int, topic_id: bytes) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(INDEX, 0, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(TOPIC, topic_id, [partition])]
    return TxnOffsetCommitRequest(TRANSACTION, GROUP, 1, 0, topics=topics)


MEMBERS_SINCE = 3
OFFSETS_AT = 9
"""The version of OffsetFetch to use: it takes topics by name, and can require stable offsets."""


def _look(stage: Stage, group: str, topic: CaseTopic) -> None:
    """Read the group's offsets with and without `require_stable`, of two partitions and of all."""
    for stable_only in (False, True):
        request: OffsetFetchRequest = ask_offsets(group, topic, 0, 1)
        request.require_stable = stable_only
        stage.send(request, OFFSETS_AT)
        request.groups[0].topics = None
        stage.send(request, OFFSETS_AT)


def _start_transaction(stage: Stage, group: str) -> CaseProducer:
    """Return a producer with the group's offsets in its transaction."""
    producer = create_producer(stage)
    add_group(stage, producer, group)
    return producer


def _to_the_end(stage: Stage, *, by_commit: bool) -> None:
    """Commit offsets in a transaction, end it, and read the offsets after each step."""
    group, topic = stage.name("g"), filled_topic(stage)
    stage.send(commit(group, topic, 2), 8)
    producer = _start_transaction(stage, group)
    for offset, metadata in ((3, "three"), (4, None)):
        stage.send(txn_commit(producer, group, topic, offset, metadata=metadata))
        _look(stage, group, topic)
    stage.send(txn_commit(producer, group, topic, 9, partition=1, metadata=""))
    _look(stage, group, topic)
    end_transaction(stage, producer, commit=by_commit)
    _look(stage, group, topic)


@case("committed")
def committed(stage: Stage) -> None:
    _to_the_end(stage, by_commit=True)


@case("aborted")
def aborted(stage: Stage) -> None:
    _to_the_end(stage, by_commit=False)


@case("a group that nobody has heard of")
def new_group(stage: Stage) -> None:
    """A transaction that commits to a new group is aborted; reads show the offsets each time."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    stage.send(txn_commit(producer, group, topic))
    _look(stage, group, topic)
    end_transaction(stage, producer, commit=False)
    _look(stage, group, topic)


@case("not part of the transaction")
def not_added(stage: Stage) -> None:
    producer = create_producer(stage)
    stage.send(txn_commit(producer, stage.name("g"), filled_topic(stage)))
    _look(stage, stage.name("g"), filled_topic(stage))


@case("producers that are others")
def others(stage: Stage) -> None:
    """Producers with a wrong epoch, producer id or transactional id cannot commit offsets."""
    group, topic = stage.name("g"), filled_topic(stage)
    create_producer(stage)
    producer = _start_transaction(stage, group)
    for one in (
        producer.other(epoch=1),
        producer.other(epoch=-1),
        producer.other(producer_id=1000),
        producer.named(stage.name("unknown")),
        producer.named(""),
        CaseProducer(producer.transactional_id, -1, -1),
    ):
        stage.send(txn_commit(one, group, topic))
    _look(stage, group, topic)


@case("once it is known in the partition, the id does not matter")
def known(stage: Stage) -> None:
    """A commit names the right, an unknown and an empty transactional id."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    for one in (producer, producer.named(stage.name("unknown")), producer.named("")):
        stage.send(txn_commit(one, group, topic))


@case("after the end of the transaction", until=4)
def after_the_end(stage: Stage) -> None:
    """After the end of the transaction offsets can be committed only in a new one."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    stage.send(txn_commit(producer, group, topic))
    end_transaction(stage, producer)
    stage.send(txn_commit(producer, group, topic, 7))
    _look(stage, group, topic)


@case("by a member, in each state", since=MEMBERS_SINCE)
def members(stage: Stage) -> None:
    """A member commits in each state of a classic group, in the right and in wrong generations.

    Unknown members and a commit without member follow.
    """
    topic = filled_topic(stage)
    states: dict[str, Callable[..., object]] = {
        "awaits": join_first_member,
        "stable": create_stable_group,
        "left": create_empty_group,
    }
    producer = create_producer(stage)
    for suffix, make in states.items():
        group = stage.name(suffix)
        member = make(stage, group)
        member_id = getattr(member, "member_id", "")
        add_group(stage, producer, group)
        for name, generation in (
            (member_id, 1),
            (member_id, 0),
            (member_id, 2),
            (member_id, -1),
            ("nobody", 1),
            ("", 1),
            ("", -1),
        ):
            request = txn_commit(
                producer, group, topic, member_id=name, generation_id_or_member_epoch=generation
            )
            stage.send(request)


@case("static: the instance and another's", since=MEMBERS_SINCE)
def static(stage: Stage) -> None:
    """A static member commits with the right, another and no instance id."""
    group, instance, topic = stage.name("g"), stage.name("i"), filled_topic(stage)
    member = create_stable_group(stage, group, instance=instance)
    producer = _start_transaction(stage, group)
    for member_id, generation, name in (
        (member.member_id, 1, instance),
        (member.member_id, 1, "other"),
        (member.member_id, 1, None),
        ("nobody", 1, instance),
        ("", -1, instance),
        (member.member_id, -1, instance),
    ):
        request = txn_commit(
            producer,
            group,
            topic,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            group_instance_id=name,
        )
        stage.send(request)


@case("a member of a group that is not there", since=MEMBERS_SINCE)
def no_group(stage: Stage) -> None:
    """Members commit to a group that does not exist; -1 and an empty id mean no member.

    The last group was also not added to the transaction.
    """
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    for member_id, generation in (("m", 1), ("", 0), ("m", -1)):
        request = txn_commit(
            producer, group, topic, member_id=member_id, generation_id_or_member_epoch=generation
        )
        stage.send(request)
    other = stage.name("other")
    stage.send(txn_commit(producer, other, topic, member_id="m", generation_id_or_member_epoch=1))


@case("by members of a consumer group, in each epoch", since=MEMBERS_SINCE)
def consumer_members(stage: Stage) -> None:
    """Members of consumer groups in each state commit partitions 0 and 2 with each epoch."""
    topic = stage.topic(partitions=3)
    producer = create_producer(stage)
    for group in groups_in_each_state(stage, topic).values():
        add_group(stage, producer, group)
        for name, epoch in WORDS:
            for partition in (0, 2):
                request = txn_commit(
                    producer,
                    group,
                    topic,
                    partition=partition,
                    member_id=name,
                    generation_id_or_member_epoch=epoch,
                )
                stage.send(request)
        _look(stage, group, topic)


@case("by members of a streams group, in each epoch", since=MEMBERS_SINCE)
def streams_members(stage: Stage) -> None:
    """Members of a streams group commit in a transaction, with each epoch."""
    topic, group = stage.topic(partitions=2), streams_group.new_group(stage)
    streams_group.finish_handover(stage, group, topic)
    producer = create_producer(stage)
    add_group(stage, producer, group)
    for name, epoch in streams_group.WORDS:
        for partition in (0, 1):
            request = txn_commit(
                producer,
                group,
                topic,
                partition=partition,
                member_id=name,
                generation_id_or_member_epoch=epoch,
            )
            stage.send(request)
    _look(stage, group, topic)


@case("by nobody, to a consumer group", until=MEMBERS_SINCE - 1)
def consumer_group(stage: Stage) -> None:
    """Versions without member ids commit to consumer groups in each state."""
    topic = stage.topic(partitions=3)
    for suffix, group in groups_in_each_state(stage, topic).items():
        producer = create_producer(stage, suffix)
        add_group(stage, producer, group)
        stage.send(txn_commit(producer, group, topic))
        _look(stage, group, topic)
        end_transaction(stage, producer)
        _look(stage, group, topic)


@case("long words with the offset")
def metadata(stage: Stage) -> None:
    """Metadata of 4096 characters, the default limit, are accepted, and one more is refused."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    for size in (4096, 4097):
        stage.send(txn_commit(producer, group, topic, metadata="m" * size))


@case("topics and partitions that are not there")
def unknown(stage: Stage) -> None:
    """Offsets of missing topics and partitions are refused; those of an existing one are
    pending."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    request = txn_commit(producer, group, topic)
    for other, partition in ((unknown_topic(stage), 0), (topic, 9), (no_topic(), 0)):
        request.topics += txn_commit(producer, group, other, partition=partition).topics
    stage.send(request)
    stage.send(txn_commit(producer, group, unknown_topic(stage)))
    stage.send(txn_commit(producer, "", topic, partition=-1))
    _look(stage, group, topic)


@case("topics by ids that are not there", since=6)
def unknown_ids(stage: Stage) -> None:
    """Unknown and zero ids, an unknown partition, and the same topic twice."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    request = txn_commit(producer, group, topic)
    for other, partition in ((unknown_topic(stage), 0), (no_topic(), 0), (topic, 9), (topic, 1)):
        request.topics += txn_commit(producer, group, other, partition=partition).topics
    stage.send(request)
    _look(stage, group, topic)


@case("the same partition twice")
def twice(stage: Stage) -> None:
    """A request commits a partition twice; the reads show which offset remains."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    request = txn_commit(producer, group, topic, 1)
    request.topics[0].partitions += txn_commit(producer, group, topic, 2).topics[0].partitions
    stage.send(request)
    end_transaction(stage, producer)
    _look(stage, group, topic)


def _mix_commits(stage: Stage, *plain: int | None, by_commit: bool = True) -> None:
    """Commit these offsets outside the transaction (None: in it), then end the transaction."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    for number, offset in enumerate(plain):
        if offset is None:
            stage.send(txn_commit(producer, group, topic, 100 + number))
        else:
            stage.send(commit(group, topic, offset), 8)
    _look(stage, group, topic)
    end_transaction(stage, producer, commit=by_commit)
    _look(stage, group, topic)


@case("a plain commit before")
def plain_before(stage: Stage) -> None:
    _mix_commits(stage, 7, None)


@case("a plain commit after it wins")
def plain_after(stage: Stage) -> None:
    _mix_commits(stage, None, 7)


@case("a plain commit in between")
def plain_between(stage: Stage) -> None:
    _mix_commits(stage, None, 7, None)


@case("a plain commit, and an abort")
def plain_and_abort(stage: Stage) -> None:
    _mix_commits(stage, None, 7, by_commit=False)


@case("two transactions: who wrote last wins")
def two_transactions(stage: Stage) -> None:
    """Of two transactions that commit the same partition, the later write wins, not the later
    end."""
    topic = filled_topic(stage)
    for suffix, order in (("first", (0, 1)), ("last", (1, 0))):
        group = stage.name(suffix)
        producers = [create_producer(stage, f"{suffix}{number}") for number in range(2)]
        for number, producer in enumerate(producers):
            add_group(stage, producer, group)
            stage.send(txn_commit(producer, group, topic, 10 + number))
        for number in order:
            end_transaction(stage, producers[number])
            _look(stage, group, topic)


@case("the offset is deleted before the end")
def deleted(stage: Stage) -> None:
    """OffsetDelete meets offsets that are pending in a transaction; the end is read afterwards."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    for partition in (0, 1):
        stage.send(txn_commit(producer, group, topic, partition=partition))
    entries = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9)]
    stage.send(OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic.name, entries)]))
    _look(stage, group, topic)
    end_transaction(stage, producer)
    _look(stage, group, topic)


@case("the group is deleted before the end")
def group_deleted(stage: Stage) -> None:
    """DeleteGroups meets a group that has only pending offsets; the commit follows."""
    group, topic = stage.name("g"), filled_topic(stage)
    producer = _start_transaction(stage, group)
    stage.send(txn_commit(producer, group, topic))
    stage.send(DeleteGroupsRequest([group]))
    _look(stage, group, topic)
    stage.send(txn_commit(producer, group, topic, 8))
    end_transaction(stage, producer)
    _look(stage, group, topic)


@case("no topics, no group")
def empty(stage: Stage) -> None:
    """A request without partitions, without topics and without a group id."""
    topic, producer = filled_topic(stage), create_producer(stage)
    add_group(stage, producer, stage.name("g"))
    request = txn_commit(producer, stage.name("g"), topic)
    request.topics[0].partitions.clear()
    stage.send(request)
    request.topics.clear()
    stage.send(request)
    stage.send(txn_commit(producer, "", topic))
