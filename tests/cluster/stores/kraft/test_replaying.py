"""Replays of random histories: what the way they are cut into batches may not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.image import (
    LOST,
    UNASSIGNED,
    BrokerImage,
    ClusterImage,
    Endpoint,
    KraftPartitionImage,
    PartitionImage,
)
from kwire.cluster.metadata.views import offline_replicas
from kwire.cluster.stores.kraft import checkpoint, records
from kwire.cluster.stores.kraft.records import BadMetadata, MetadataBatch
from kwire.cluster.stores.kraft.replaying import MetadataReplay, why_unsupported
from kwire.codecs.messages.abort_transaction_record import AbortTransactionRecord
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.begin_transaction_record import BeginTransactionRecord
from kwire.codecs.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.codecs.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.end_transaction_record import EndTransactionRecord
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.codecs.messages.kraft_version_record import KRaftVersionRecord
from kwire.codecs.messages.leader_change_message import LeaderChangeMessage
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.primitives import Message
from tests.cluster.stores.kraft.histories import History, uuid

CLUSTER = "AAAAAAAAQACEAgAAAAAAAA"


def batch(replay: MetadataReplay, *items: Message, control: bool = False) -> MetadataBatch:
    """The records as the next batch of `replay`."""
    start = replay.end_offset
    return MetadataBatch(start, start + len(items) - 1, 1, 5, control, items)


def replayed(*items: Message) -> MetadataReplay:
    """A replay of the records as one batch."""
    replay = MetadataReplay(CLUSTER)
    replay.add(batch(replay, *items))
    return replay


def comparable(image: ClusterImage) -> ClusterImage:
    """The image without the epoch of its features, which a snapshot does not have."""
    return replace(image, features=replace(image.features, epoch=0))


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data())
def test_replay_gives_deltas_that_make_each_image_of_the_one_before(data: st.DataObject) -> None:
    history = History(data).records()
    replay = MetadataReplay(CLUSTER)
    while history:
        size = data.draw(st.integers(1, 6))
        before, chunk, history = replay.image, history[:size], history[size:]
        published = replay.add(batch(replay, *chunk))
        assert published is not None
        assert published.delta.applied_to(before) == published.image == replay.image
        assert published.image.version == replay.end_offset


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data())
def test_replay_gives_the_same_image_however_records_are_cut_into_batches(
    data: st.DataObject,
) -> None:
    history = History(data).records()
    whole, single = replayed(*history), MetadataReplay(CLUSTER)
    for record in history:
        single.add(batch(single, record))
    assert comparable(single.image) == comparable(whole.image)
    assert single.acl_ids == whole.acl_ids


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data())
def test_replay_of_a_snapshot_and_the_log_behind_it_gives_the_image_of_the_whole_log(
    data: st.DataObject,
) -> None:
    history = History(data).records()
    cut = data.draw(st.integers(1, len(history)))
    whole, first = replayed(*history), replayed(*history[:cut])
    taken = b"".join(checkpoint.snapshot_of(first, now_ms=9))
    later = replayed(*history[: data.draw(st.integers(1, len(history)))])
    before = later.image
    published = later.load(cut, 1, list(records.decode_batches(taken)))
    assert comparable(published.image) == comparable(first.image)
    assert published.delta.applied_to(before) == published.image
    for record in history[cut:]:
        later.add(batch(later, record))
    assert comparable(later.image) == comparable(whole.image)
    assert later.acl_ids == whole.acl_ids


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data())
def test_transaction_of_records_counts_as_a_whole_or_not_at_all(data: st.DataObject) -> None:
    history = History(data).records()
    cut = data.draw(st.integers(1, len(history)))
    start, inside = history[:cut], history[cut:]
    for end, expected in (
        (EndTransactionRecord(), replayed(*history)),
        (AbortTransactionRecord("why"), replayed(*start)),
    ):
        replay = replayed(*start, BeginTransactionRecord("name"))
        assert comparable(replay.image) == comparable(replayed(*start).image)
        for record in inside:
            assert replay.add(batch(replay, record)) is None
        published = replay.add(batch(replay, end))
        assert published is not None
        after = replace(expected.image, version=replay.end_offset)
        assert comparable(published.image) == comparable(after)


TOPIC = TopicRecord("t", uuid(7))
PARTITION = PartitionRecord(
    partition_id=0,
    topic_id=uuid(7),
    replicas=[1, 2],
    isr=[1, 2],
    leader=1,
    leader_epoch=0,
    partition_epoch=0,
)


def state(replay: MetadataReplay) -> PartitionImage:
    return replay.image.topics["t"].partitions[0]


def test_each_change_of_a_partition_counts_its_epochs() -> None:
    isr_only = PartitionChangeRecord(0, uuid(7), isr=[1])
    no_leader = PartitionChangeRecord(0, uuid(7), leader=-1, isr=[])
    same_leader = PartitionChangeRecord(0, uuid(7), leader=1)
    replay = replayed(TOPIC, PARTITION, isr_only)
    assert (state(replay).leader_epoch, state(replay).partition_epoch) == (0, 1)
    replay.add(batch(replay, no_leader, same_leader))
    assert (state(replay).leader_epoch, state(replay).partition_epoch) == (2, 3)
    assert state(replay).leader == 1


def test_partition_without_directories_in_its_record_has_none() -> None:
    assert state(replayed(TOPIC, PARTITION)).directories == ()


def test_topic_created_again_in_one_batch_loses_its_configs_and_is_listed_as_deleted() -> None:
    replay = replayed(TOPIC, PARTITION, ConfigRecord(2, "t", "retention.ms", "1"))
    published = replay.add(batch(replay, RemoveTopicRecord(uuid(7)), TopicRecord("t", uuid(8))))
    assert published is not None
    assert published.delta.deleted == {"t": uuid(7)}
    assert published.image.topics["t"].id == uuid(8)
    assert published.image.configs_of(2, "t") == {}
    assert published.image.topic_by_id(uuid(7)) is None


REGISTERED = RegisterBrokerRecord(broker_id=1, broker_epoch=5, log_dirs=[uuid(3), uuid(4)])


def change(**fields: Any) -> BrokerRegistrationChangeRecord:  # noqa: ANN401 - its own fields
    return BrokerRegistrationChangeRecord(1, 5, **fields)


def test_fenced_broker_is_registered_and_not_live() -> None:
    replay = replayed(REGISTERED)
    assert (list(replay.image.brokers), list(replay.image.fenced)) == ([], [1])
    unfenced = replay.add(batch(replay, change(fenced=-1)))
    assert unfenced is not None
    assert (list(unfenced.image.brokers), list(unfenced.image.fenced)) == ([1], [])
    assert unfenced.delta.brokers == unfenced.image.registered == unfenced.image.brokers
    assert unfenced.delta.registered == {}, "the registration is the same"


def test_change_of_a_broker_keeps_what_it_does_not_name() -> None:
    replay = replayed(REGISTERED, change(fenced=-1), change(in_controlled_shutdown=1))
    replay.add(batch(replay, change(cordoned_log_dirs=[uuid(3)]), change(fenced=1)))
    broker = replay.image.fenced[1]
    assert broker.is_leaving
    assert broker.directories == (uuid(3), uuid(4))
    assert broker.cordoned_directories == (uuid(3),)
    replay.add(batch(replay, change(log_dirs=[uuid(4)])))
    assert replay.image.fenced[1].directories == (uuid(4),)


def test_replica_is_offline_if_its_broker_is_fenced_or_its_directory_failed() -> None:
    endpoint = Endpoint("PLAINTEXT", "h", 1)
    image = ClusterImage(
        CLUSTER,
        brokers={
            number: BrokerImage(number, (endpoint,), directories=(uuid(3),))
            for number in (1, 2, 3, 4)
        },
        registered={5: BrokerImage(5, (endpoint,))},
    )
    directories = (uuid(3), uuid(9), LOST, UNASSIGNED, uuid(3))
    partition = KraftPartitionImage(1, 0, 0, (1, 2, 3, 4, 5), (1,), directories=directories)
    assert offline_replicas(image, partition) == [2, 3, 5]


def test_access_control_entry_is_removed_by_its_id() -> None:
    pattern = ResourcePattern(2, 3, "t")
    added = [
        AccessControlEntryRecord(uuid(n), 2, "t", 3, f"User:{n}", "10.0.0.0/8", 3, 3)
        for n in (1, 2)
    ]
    replay = replayed(*added)
    replay.add(batch(replay, RemoveAccessControlEntryRecord(uuid(1))))
    assert replay.image.acls == {pattern: {AccessControlEntry("User:2", "10.0.0.0/8", 3, 3)}}


@pytest.mark.parametrize("value", [1000.0, 1000.5, 0.1, 1e300, 5.0000001])
def test_quota_keeps_its_value_exactly(value: float) -> None:
    entity = [EntityData("user", "alice")]
    replay = replayed(ClientQuotaRecord(entity, "producer_byte_rate", value, False))
    (configs,) = replay.image.configs.values()
    assert float(configs["producer_byte_rate"]) == value


def test_features_name_the_levels_in_force_and_the_version_of_their_last_change() -> None:
    replay = replayed(FeatureLevelRecord("metadata.version", 33))
    replay.add(batch(replay, KRaftVersionRecord(0, 1), control=True))
    replay.add(batch(replay, FeatureLevelRecord("group.version", 1)))
    replay.add(batch(replay, FeatureLevelRecord("group.version", 0)))
    replay.add(batch(replay, TOPIC))
    features = replay.image.features
    assert features.in_force == {"metadata.version": 33, "kraft.version": 1}
    assert features.epoch == 4


def test_transaction_stays_open_until_the_new_leader_aborts_it() -> None:
    replay = replayed(BeginTransactionRecord("name"), TOPIC)
    assert replay.add(batch(replay, LeaderChangeMessage(0, 3, [], []), control=True)) is None
    published = replay.add(batch(replay, AbortTransactionRecord("why")))
    assert published is not None
    assert not published.image.topics


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (RemoveTopicRecord(uuid(9)), "no topic has the id"),
        (TOPIC, "topic t exists already"),
        (PartitionChangeRecord(3, uuid(7), isr=[1]), "partition t-3 does not exist"),
        (BrokerRegistrationChangeRecord(2, 5), "broker 2 is not registered"),
        (BrokerRegistrationChangeRecord(1, 6), "broker 1 is registered with epoch 5, not 6"),
        (change(fenced=2), "unknown fencing 2"),
        (RemoveAccessControlEntryRecord(uuid(9)), "no access control entry has the id"),
        (EndTransactionRecord(), "a transaction ends that has not begun"),
    ],
)
def test_record_that_contradicts_the_metadata_is_refused_with_its_offset(
    wrong: Message, why: str
) -> None:
    replay = replayed(TOPIC, PARTITION, REGISTERED)
    before = replay.image
    with pytest.raises(BadMetadata, match=f"offset 3 of the metadata log: .*{why}"):
        replay.add(batch(replay, wrong))
    assert replay.image is before


def test_batch_that_does_not_follow_is_refused() -> None:
    replay = replayed(TOPIC)
    with pytest.raises(BadMetadata, match="offset 5 on follows the offset 1"):
        replay.add(MetadataBatch(5, 5, 1, 0, False, [PARTITION]))


def test_snapshot_without_its_footer_is_refused() -> None:
    parts = list(checkpoint.snapshot_of(replayed(TOPIC, PARTITION), now_ms=0))
    replay = MetadataReplay(CLUSTER)
    with pytest.raises(BadMetadata, match="is not complete"):
        replay.load(2, 1, list(records.decode_batches(b"".join(parts[:-1]))))


@pytest.mark.parametrize(
    ("level", "why"), [(20, "kwire needs 21"), (34, "use a newer kwire"), (21, None), (33, None)]
)
def test_metadata_version_outside_the_known_ones_is_refused(level: int, why: str | None) -> None:
    said = why_unsupported(replayed(FeatureLevelRecord("metadata.version", level)).image)
    assert said is None if why is None else why in str(said)
