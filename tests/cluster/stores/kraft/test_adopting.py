"""The snapshot with which controllers begin, and the folders that have it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.entities import entity_key
from kwire.cluster.metadata.features import (
    KRAFT_VERSION,
    LEVELS_WITHOUT_ELR,
    METADATA_VERSION,
    NEWEST_LEVELS,
    FinalizedFeatures,
)
from kwire.cluster.metadata.image import (
    FIRST_PRODUCER_ID,
    NO_LEADER,
    TOPIC_RESOURCE,
    UNASSIGNED,
    BrokerImage,
    ClusterImage,
    Endpoint,
    KraftPartitionImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.cluster.stores.kraft import first_folders
from kwire.cluster.stores.kraft.adopting import (
    Adopted,
    AdoptedBroker,
    FirstController,
    NotAdoptable,
    adopted,
)
from kwire.cluster.stores.kraft.checkpoint import batches_of
from kwire.cluster.stores.kraft.records import decode_batches
from kwire.cluster.stores.kraft.replaying import MetadataReplay, why_unsupported
from kwire.log.directory import meta_properties
from kwire.log.directory.files import Files
from kwire.log.directory.meta_properties import MetaProperties
from kwire.security.sasl.scram import Credential
from tests.cluster.stores.kraft.test_link import RECORDED, opened

NOW_MS = 1_700_000_000_000
CLUSTER = "AAAAAAAAQACEAgAAAAAAAA"
TOPIC_ID = b"t" * 16
CONTROLLER = FirstController(100, "localhost", 9093, b"c" * 16)
RULE = (ResourcePattern(2, 3, "orders"), AccessControlEntry("User:mallory", "*", 3, 2))
TOKEN = DelegationToken("id", "User:alice", "User:alice", ("User:bob",), 1, 3, 2)
SCRAM = Credential(b"salt", b"s" * 32, b"k" * 32, 4096).text


def ids() -> Callable[[], bytes]:
    """A source of different ids."""
    numbers = itertools.count(1 << 100)
    return lambda: next(numbers).to_bytes(16)


def places(topic: str, *indexes: int, directory: bytes = b"a" * 16) -> dict[tuple[str, int], bytes]:
    return {(topic, index): directory for index in indexes}


def broker(
    broker_id: int,
    found: Mapping[tuple[str, int], bytes],
    *,
    directories: tuple[bytes, ...] = (b"a" * 16,),
    was_clean: bool = True,
) -> AdoptedBroker:
    return AdoptedBroker(broker_id, directories, found, was_clean)


def led(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(leader, 5, 7, replicas, isr, offline=(3,), controller_epoch=9)


def image_of(
    *partitions: PartitionImage, levels: Mapping[str, int] = NEWEST_LEVELS
) -> ClusterImage:
    features = FinalizedFeatures(levels, epoch=2)
    topic = TopicImage("orders", TOPIC_ID, partitions)
    return ClusterImage(CLUSTER, features=features, version=40).with_topics([topic])


SINGLE = image_of(led(7, (7,), (7,)), led(7, (7,), (7,)))
HERE = broker(7, places("orders", 0, 1))


def full() -> ClusterImage:
    """A single node's image with something of each kind."""
    pattern, entry = RULE
    return (
        replace(SINGLE, controller_epoch=3, next_producer_id=FIRST_PRODUCER_ID + 2000)
        .with_configs(TOPIC_RESOURCE, "orders", {"retention.ms": "1"})
        .with_configs(4, "", {"min.insync.replicas": "1"})
        .with_configs(32, "group", {"consumer.session.timeout.ms": "47000"})
        .with_configs(
            *entity_key({"user": "alice"}), {"SCRAM-SHA-256": SCRAM, "producer_byte_rate": "1000"}
        )
        .with_acls(pattern, frozenset([entry]))
        .with_token("id", TOKEN)
        .with_broker(BrokerImage(7, (Endpoint("PLAINTEXT", "host", 9092),), "rack"))
    )


def adopt(
    image: ClusterImage,
    *brokers: AdoptedBroker,
    controllers: tuple[FirstController, ...] = (CONTROLLER,),
    offset: int = 50,
) -> Adopted:
    return adopted(image, offset, brokers, controllers, new_id=ids(), now_ms=NOW_MS)


def content(made: Adopted) -> Iterator[bytes]:
    return batches_of(made.state, NOW_MS)


def replayed(made: Adopted) -> MetadataReplay:
    """What a node reads of the snapshot."""
    replay = MetadataReplay(CLUSTER)
    batches = decode_batches(b"".join(content(made)))
    replay.load(made.snapshot.end_offset, made.snapshot.epoch, batches)
    return replay


def test_snapshot_has_everything_of_the_single_node() -> None:
    image = full()
    replay = replayed(made := adopt(image, HERE))
    after = replay.image
    assert made.topics == 1
    assert after.cluster_id == CLUSTER
    assert after.topics["orders"].id == TOPIC_ID
    assert dict(after.configs.items()) == dict(image.configs.items())
    assert (after.acls, after.tokens) == (image.acls, image.tokens)
    assert after.next_producer_id == image.next_producer_id
    assert dict(after.features.in_force) == {**NEWEST_LEVELS, KRAFT_VERSION: 1}
    assert why_unsupported(after) is None
    assert replay.voters is not None
    assert [voter.voter_id for voter in replay.voters.voters] == [100]
    assert set(replay.acl_ids.values()) == {RULE}


@pytest.mark.parametrize(
    ("levels", "isr", "eligible", "last_eligible"),
    [
        (NEWEST_LEVELS, (), (2, 1), (1,)),
        (LEVELS_WITHOUT_ELR, (2, 1), (), ()),
    ],
)
def test_partition_is_as_after_a_stop_of_all_brokers(
    levels: Mapping[str, int],
    isr: tuple[int, ...],
    eligible: tuple[int, ...],
    last_eligible: tuple[int, ...],
) -> None:
    image = image_of(led(1, (1, 2, 3), (2, 1)), levels=levels)
    brokers = [broker(each, places("orders", 0, directory=bytes([each]) * 16)) for each in (1, 2)]
    (state,) = replayed(adopt(image, *brokers)).image.topics["orders"].partitions
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (NO_LEADER, 5, 7)
    assert (state.replicas, state.isr) == ((1, 2, 3), isr)
    assert (state.eligible, state.last_eligible) == (eligible, last_eligible)
    assert state.directories == (b"\1" * 16, b"\2" * 16, UNASSIGNED)


def test_last_known_leader_was_in_sync() -> None:
    image = image_of(led(NO_LEADER, (7, 8), (7,)))
    (state,) = (
        replayed(adopt(image, broker(7, places("orders", 0)))).image.topics["orders"].partitions
    )
    assert state.last_eligible == (7,)


def test_eligible_leader_replicas_stay_eligible() -> None:
    state = KraftPartitionImage(NO_LEADER, 5, 7, (7,), (), eligible=(7,), last_eligible=(7,))
    (after,) = replayed(adopt(image_of(state), HERE)).image.topics["orders"].partitions
    assert (after.isr, after.eligible, after.last_eligible) == ((), (7,), (7,))


def test_brokers_are_registered_and_fenced_in_epochs_before_the_end_of_the_snapshot() -> None:
    image = image_of(led(2, (1, 2), (1, 2)))
    made = adopt(image, broker(1, places("orders", 0)), broker(2, places("orders", 0)))
    after = replayed(made).image
    assert not after.brokers
    epochs = {broker_id: each.epoch for broker_id, each in after.registered.items()}
    assert epochs == dict(made.broker_epochs)
    assert 50 < epochs[1] < epochs[2] < made.snapshot.end_offset == after.version
    assert len({each.incarnation for each in after.registered.values()}) == 2
    assert after.registered[1].directories == (b"a" * 16,)


def test_registration_keeps_known_endpoints_and_rack() -> None:
    after = replayed(adopt(full(), HERE)).image.registered[7]
    assert (after.rack, after.endpoints[0].host) == ("rack", "host")
    assert replayed(adopt(SINGLE, HERE)).image.registered[7].endpoints == ()


def test_leader_epoch_of_the_snapshot_is_after_that_of_the_node() -> None:
    assert adopt(full(), HERE).snapshot.epoch == 4
    assert adopt(SINGLE, HERE).snapshot.epoch == 1


def test_topics_in_deletion_are_left_out() -> None:
    image = full().with_deleting("orders")
    after = replayed(adopt(image, broker(7, {}))).image
    assert not after.topics
    assert (TOPIC_RESOURCE, "orders") not in after.configs


def test_producer_ids_begin_above_those_of_apache_kafka() -> None:
    assert replayed(adopt(SINGLE, HERE)).image.next_producer_id == FIRST_PRODUCER_ID


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"image": image_of(led(7, (7,), (7,)), levels={METADATA_VERSION: 20})},
            "metadata.version 20, and KRaft controllers need 21",
        ),
        ({"controllers": (CONTROLLER, CONTROLLER)}, "two controllers have the same id"),
        ({"controllers": (replace(CONTROLLER, id=7),)}, "7 is the id of a broker"),
        ({"brokers": [broker(8, places("orders", 0, 1))]}, "in-sync replica of orders-0, orders-1"),
        ({"brokers": [broker(7, places("orders", 1))]}, "lack the logs of orders-0: name all"),
        (
            {
                "image": image_of(*[led(7, (7,), (7,))] * 5),
                "brokers": [broker(7, places("orders", 1))],
            },
            "lack the logs of orders-0, orders-2, orders-3 and 1 more",
        ),
    ],
)
def test_adoption_is_refused(change: dict[str, Any], sentence: str) -> None:
    given = {"image": SINGLE, "brokers": [HERE], **change}
    image, brokers = given.pop("image"), given.pop("brokers")
    with pytest.raises(NotAdoptable, match=sentence):
        adopt(image, *brokers, **given)


def test_killed_broker_may_lack_the_folder_of_a_new_partition() -> None:
    killed = broker(7, places("orders", 0), was_clean=False)
    partitions = replayed(adopt(SINGLE, killed)).image.topics["orders"].partitions
    assert [state.directories for state in partitions] == [(b"a" * 16,)] * 2


def test_replica_without_a_folder_is_in_no_directory_if_there_are_several() -> None:
    found = {("orders", 0): b"b" * 16}
    killed = broker(7, found, directories=(b"a" * 16, b"b" * 16), was_clean=False)
    partitions = replayed(adopt(SINGLE, killed)).image.topics["orders"].partitions
    assert [state.directories for state in partitions] == [(b"b" * 16,), (UNASSIGNED,)]


def test_observer_begins_with_the_snapshot_in_the_folder(tmp_path: Path) -> None:
    made, identity = adopt(full(), HERE), MetaProperties(1, 7, CLUSTER, "AAAA")
    first_folders.write_controller(Files(), tmp_path, identity, made.snapshot, content(made))
    assert not first_folders.has_begun(tmp_path)
    assert meta_properties.read(Files(), tmp_path) == identity
    log = opened(tmp_path / "__cluster_metadata-0")
    assert first_folders.has_begun(tmp_path)
    assert log.newest_snapshot == made.snapshot
    assert (log.start_offset, log.end_offset) == (made.snapshot.end_offset,) * 2
    assert log.last_epoch == made.snapshot.epoch
    replay = MetadataReplay(CLUSTER)
    replay.load(*made.snapshot, log.snapshot(made.snapshot))
    assert replay.image == replayed(made).image
    log.close()


def test_repeated_adoption_replaces_the_snapshot(tmp_path: Path) -> None:
    identity = MetaProperties(1, 7, CLUSTER, "AAAA")
    for offset in (50, 60):
        made = adopt(SINGLE, HERE, offset=offset)
        first_folders.write_controller(Files(), tmp_path, identity, made.snapshot, content(made))
    (path,) = (tmp_path / "__cluster_metadata-0").iterdir()
    assert path.name == f"{made.snapshot.end_offset:020}-0000000001.checkpoint"


def test_snapshot_after_a_log_replaces_it(tmp_path: Path) -> None:
    """As in the directory of a node that was its own controller."""
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    log = opened(folder)
    log.append(RECORDED.log, 9, NOW_MS)
    end, epoch = log.end_offset, log.last_epoch
    log.close()
    (folder / "quorum-state").write_text("{}")
    before = first_folders.replayed(tmp_path, CLUSTER)
    assert (before.end_offset, before.epoch) == (end, epoch)
    image = SINGLE.with_controller(-1, epoch)
    made = adopt(image, HERE, offset=end)
    first_folders.write_snapshot(Files(), tmp_path, made.snapshot, content(made))
    assert not (folder / "quorum-state").exists()
    log = opened(folder)
    assert (log.start_offset, log.end_offset) == (made.snapshot.end_offset,) * 2
    assert log.last_epoch == made.snapshot.epoch == epoch + 1
    log.close()
    after = first_folders.replayed(tmp_path, CLUSTER)
    assert after.image.topics == made.state.image.topics
