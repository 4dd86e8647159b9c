"""Findings: each change of the metadata with its sentence, in the order of the report."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    ChangeAcls,
    CreateTopic,
    DeleteTopic,
    SetConfigs,
    SetFeatures,
    SetToken,
)
from kwire.cluster.metadata.credentials import user_key
from kwire.cluster.metadata.entities import ENTITY_RESOURCE, entity_key
from kwire.cluster.metadata.features import SUPPORTED, FinalizedFeatures
from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.log.directory.kraft_metadata import KraftMetadata, KraftPartition
from kwire.security.sasl.scram import Credential
from kwire.storage.takeover import entities, features, tokens
from kwire.storage.takeover.kraft_changes import Replica, records_of
from kwire.storage.takeover.reconciling import (
    MetadataFinding,
    OnDisk,
    from_kraft,
    from_logs,
    newer_epoch,
)

ME = 7
T = b"t" * 16


def in_image(leader_epoch: int, partition_epoch: int = 0) -> PartitionImage:
    return PartitionImage(ME, leader_epoch, partition_epoch, (ME,), (ME,))


def in_kraft(
    leader_epoch: int, partition_epoch: int = 0, replicas: tuple[int, ...] = (ME,)
) -> KraftPartition:
    return KraftPartition(-1, leader_epoch, partition_epoch, replicas, ())


def kraft_of(**topics: dict[int, KraftPartition]) -> KraftMetadata:
    kraft = KraftMetadata()
    for name, partitions in topics.items():
        kraft.topics[name] = topic_id = name.encode() * 16
        kraft.partitions[topic_id] = partitions
    return kraft


def image_of(**topics: tuple[PartitionImage, ...]) -> ClusterImage:
    made = [TopicImage(name, name.encode() * 16, states) for name, states in topics.items()]
    return ClusterImage("c").with_topics(made)


def known(kind: int, name: str, configs: Mapping[str, str]) -> Mapping[str, str] | None:
    """The known configs: of a topic all but `theirs`, of another broker none."""
    if kind == 2:
        return {key: text for key, text in configs.items() if key != "theirs"}
    return None if (kind, name) == (4, "9") else configs


def found(
    image: ClusterImage, kraft: KraftMetadata, on_disk: OnDisk | None = None
) -> list[MetadataFinding]:
    return list(from_kraft(image, kraft, ME, on_disk or {}, known))


# -- topics


def test_deleted_new_and_recreated_topics_are_findings() -> None:
    image = image_of(g=(in_image(1),), t=(in_image(1),), k=(in_image(1),))
    kraft = kraft_of(n={1: in_kraft(5, 6), 0: in_kraft(3, 4)}, k={0: in_kraft(1)})
    kraft.topics["t"] = new = b"\1" * 16
    kraft.partitions[new] = {0: in_kraft(9, 8)}
    kraft.configs = {(2, "n"): {"theirs": "1", "a": "2"}, (2, "elsewhere"): {"a": "1"}}
    made = TopicImage("n", b"n" * 16, (in_image(3, 4), in_image(5, 6)))
    expected = [
        MetadataFinding("topic g was deleted", DeleteTopic("g", b"g" * 16)),
        MetadataFinding(
            "topic t was deleted and created again, with id AQEBAQEBAQEBAQEBAQEBAQ",
            DeleteTopic("t", T),
        ),
        MetadataFinding("topic n was created, with 2 partitions", CreateTopic(made, {"a": "2"})),
        MetadataFinding(
            "topic t was created, with 1 partitions",
            CreateTopic(TopicImage("t", new, (in_image(9, 8),)), {}),
        ),
    ]
    assert sorted(found(image, kraft), key=repr) == sorted(expected, key=repr)


def test_topic_with_partitions_on_other_nodes_is_left_alone() -> None:
    kraft = kraft_of(
        a={0: in_kraft(1), 2: in_kraft(1)},
        b={0: in_kraft(1), 1: in_kraft(1, replicas=(8, 9))},
        c={1: in_kraft(1)},
        d={0: in_kraft(1, replicas=(8, ME))},
    )
    alone = "is left alone: this node lacks some of its partitions"
    assert [(each.says, each.change is None) for each in found(image_of(), kraft)] == [
        (f"a {alone}", True),
        (f"b {alone}", True),
        (f"c {alone}", True),
        ("topic d was created, with 1 partitions", False),
    ]


def test_later_epochs_and_new_partitions_of_a_topic_are_findings() -> None:
    image = image_of(t=(in_image(3, 5), in_image(3, 5), in_image(3, 5)))
    kraft = kraft_of(t={4: in_kraft(6, 1), 0: in_kraft(4, 9), 2: in_kraft(3, 9), 3: in_kraft(2, 7)})
    assert found(image, kraft) == [
        MetadataFinding(
            "t-0 was led in epoch 4, after 3 here", AlterPartition("t", T, 0, 5, in_image(4, 9))
        ),
        MetadataFinding(
            "topic t grew from 3 to 5 partitions",
            AddPartitions("t", T, 3, (in_image(2, 7), in_image(6, 1))),
        ),
    ]


def test_later_leader_epoch_raises_the_partition_epoch() -> None:
    known = TopicImage("t", T, (in_image(0), in_image(3, 5)))
    says = "t-1 was led in epoch 6, after 3 here"
    for extra_epochs, expected in (((), 6), ((6,), 6), ((9,), 9)):
        change = AlterPartition("t", T, 1, 5, in_image(6, expected))
        assert newer_epoch(known, 1, 6, *extra_epochs) == MetadataFinding(says, change)


def test_recreated_and_grown_topics_of_logs_are_findings() -> None:
    old = TopicImage("t", T, (in_image(1),))
    image = ClusterImage("c").with_topics([old]).with_configs(2, "t", {"a": "1"})
    new = TopicImage("t", b"\1" * 16, (in_image(2), in_image(3)))
    assert list(from_logs(old, new, image)) == [
        MetadataFinding(
            "topic t was deleted and created again, with id AQEBAQEBAQEBAQEBAQEBAQ",
            DeleteTopic("t", T),
        ),
        MetadataFinding("topic t, with 2 partitions", CreateTopic(new, {"a": "1"})),
    ]
    grown = TopicImage("t", T, (in_image(2), in_image(3), in_image(4)))
    assert list(from_logs(old, grown, image)) == [
        MetadataFinding(
            "topic t grew from 1 to 3 partitions",
            AddPartitions("t", T, 1, (in_image(3), in_image(4))),
        )
    ]
    assert list(from_logs(grown, old, image)) == []
    assert list(from_logs(old, old, image)) == []


# -- settings


def test_added_removed_and_changed_configs_are_one_finding_per_resource() -> None:
    image = image_of(t=(in_image(1),)).with_configs(2, "t", {"a": "1", "b": "1", "c": "1"})
    image = image.with_configs(4, "7", {"gone": "1"}).with_configs(16, "s", {"same": "1"})
    image = image.with_configs(4, "9", {"nobody's": "1"})
    kraft = kraft_of(t={0: in_kraft(1)})
    kraft.configs = {
        (32, "g"): {"x": "1"},
        (16, "s"): {"same": "1"},
        (16, "u"): {"y": "1"},
        (4, ""): {"z": "1"},
        (4, "9"): {"other": "1"},
        (2, "t"): {"d": "1", "c": "1", "b": "2", "theirs": "1"},
    }
    before = {"a": "1", "b": "1", "c": "1"}
    assert found(image, kraft) == [
        MetadataFinding(
            "topic t: a, b, d changed",
            SetConfigs(2, "t", before, {"d": "1", "c": "1", "b": "2"}),
        ),
        MetadataFinding("broker (all): z changed", SetConfigs(4, "", {}, {"z": "1"})),
        MetadataFinding("broker 7: gone changed", SetConfigs(4, "7", {"gone": "1"}, {})),
        MetadataFinding(
            "client metrics subscription u: y changed", SetConfigs(16, "u", {}, {"y": "1"})
        ),
        MetadataFinding("group g: x changed", SetConfigs(32, "g", {}, {"x": "1"})),
    ]


# -- users, rights, tokens

ONE = Credential(b"salt", b"stored", b"server", 4096)
SCRAM = "SCRAM-SHA-256"


def test_credentials_and_quotas_are_findings_and_other_configs_stay() -> None:
    image = ClusterImage("c").with_configs(*user_key("a"), {SCRAM: "?", "other": "1"})
    image = image.with_configs(*entity_key({"client-id": "c"}), {"request_percentage": "2.0"})
    image = image.with_configs(ENTITY_RESOURCE, "odd/x", {"producer_byte_rate": "1"})
    kraft = KraftMetadata(features={"metadata.version": entities.SINCE})
    record = UserScramCredentialRecord("a", 1, b"salt", b"stored", b"server", 4096)
    kraft.credentials = {("a", 1): record, ("a", 99): record}
    kraft.quotas = {
        (("user", "a"),): {"producer_byte_rate": 5.0, "consumer_byte_rate": 1.0},
        (("client-id", None), ("user", "b")): {"unknown_rate": 0.5},
    }
    after = {
        "other": "1", SCRAM: ONE.text, "producer_byte_rate": "5", "consumer_byte_rate": "1",
    }  # fmt: skip
    client = entity_key({"client-id": "c"})
    both = entity_key({"client-id": None, "user": "b"})
    assert list(entities.from_log(image, kraft)) == [
        entities.Changed(
            "client-id c: request_percentage changed",
            SetConfigs(*client, {"request_percentage": "2.0"}, {}),
        ),
        entities.Changed(
            "odd/x: producer_byte_rate changed",
            SetConfigs(ENTITY_RESOURCE, "odd/x", {"producer_byte_rate": "1"}, {}),
        ),
        entities.Changed(
            "user a: credentials, consumer_byte_rate, producer_byte_rate changed",
            SetConfigs(*user_key("a"), {SCRAM: "?", "other": "1"}, after),
        ),
        entities.Changed(
            "user b, client-id (default): unknown_rate changed",
            SetConfigs(*both, {}, {"unknown_rate": "0.5"}),
        ),
    ]


def test_missing_entity_configs_are_those_that_the_log_can_keep() -> None:
    image = ClusterImage("c").with_configs(*user_key("a"), {SCRAM: ONE.text, "other": "1"})
    image = image.with_configs(*user_key("b"), {"other": "1"})
    kraft = KraftMetadata(features={"metadata.version": entities.SINCE})
    kraft.quotas = {(("user", "c"),): {"producer_byte_rate": 5.0}}
    expected = [
        SetConfigs(*user_key("a"), {}, {SCRAM: ONE.text}),
        SetConfigs(*user_key("c"), {"producer_byte_rate": "5"}, {}),
    ]
    assert list(entities.lacking_in_log(image, kraft)) == expected
    kraft.features["metadata.version"] -= 1
    assert list(entities.lacking_in_log(image, kraft)) == expected[1:]


def test_only_configs_of_users_are_written_as_credentials() -> None:
    kraft = KraftMetadata(features={"metadata.version": entities.SINCE})
    change = SetConfigs(*entity_key({"user": "a", "client-id": "c"}), {}, {SCRAM: ONE.text})
    assert list(records_of(change, Replica(ME), kraft)) == []
    change = SetConfigs(*entity_key({"user": None}), {}, {SCRAM: ONE.text})
    assert list(records_of(change, Replica(ME), kraft)) == []


def test_changed_acls_are_one_finding_per_resource() -> None:
    entry, old = AccessControlEntry("User:a", "*", 3, 3), AccessControlEntry("User:b", "h", 4, 2)
    pattern, other = ResourcePattern(2, 3, "t"), ResourcePattern(3, 4, "g")
    image = ClusterImage("c").with_acls(other, frozenset({old}))
    kraft = KraftMetadata()
    kraft.acls[b"1"] = AccessControlEntryRecord(b"1", 2, "t", 3, "User:a", "*", 3, 3)
    assert found(image, kraft) == [
        MetadataFinding("the ACLs of TOPIC t changed", ChangeAcls(pattern, (entry,), ())),
        MetadataFinding("the ACLs of GROUP g changed", ChangeAcls(other, (), (old,))),
    ]


def test_delegation_tokens_are_findings_if_the_logs_version_has_them() -> None:
    old = DelegationToken("o", "User:a", "User:a", (), 1, 2, 3)
    new = DelegationToken("t", "User:a", "User:r", ("User:b",), 4, 5, 6)
    image = ClusterImage("c").with_token("o", old)
    kraft = KraftMetadata(features={"metadata.version": tokens.SINCE})
    kraft.tokens["t"] = DelegationTokenRecord("User:a", "User:r", ["User:b"], 4, 5, 6, "t")
    token_changes = [each for each in found(image, kraft) if isinstance(each.change, SetToken)]
    assert token_changes == [
        MetadataFinding("delegation token o changed", SetToken("o", old, None)),
        MetadataFinding("delegation token t changed", SetToken("t", None, new)),
    ]
    assert list(tokens.lacking_in_log(image, kraft)) == [
        SetToken("o", None, old),
        SetToken("t", new, None),
    ]
    for features_ in ({"metadata.version": tokens.SINCE - 1}, {}):
        kraft.features = features_
        assert list(tokens.from_log(image, kraft)) == []


# -- features


def test_feature_levels_of_the_log_get_a_later_epoch() -> None:
    levels = {name: high for name, (_, high) in SUPPORTED.items()}
    kraft = KraftMetadata(features={**levels, "transaction.version": 1, "another.version": 3})
    for version, epoch, after in ((4, 9, 10), (9, 4, 10)):
        before = FinalizedFeatures(levels, None, epoch)
        image = ClusterImage("c", version=version).with_features(before)
        [(says, change)] = features.levels_from_log(image, kraft)
        assert says == "transaction.version to 1"
        levels_now = {**levels, "transaction.version": 1}
        assert change == SetFeatures(epoch, FinalizedFeatures(levels_now, None, after))


def test_missing_feature_levels_are_those_in_force() -> None:
    levels = {name: high for name, (_, high) in SUPPORTED.items()}
    requested = {**levels, "group.version": 0}
    image = ClusterImage("c").with_features(FinalizedFeatures(requested, None, 4))
    assert list(features.levels_lacking_in_log(image, KraftMetadata(features=levels))) == [
        SetFeatures(4, image.features)
    ]
    same = KraftMetadata(features={**levels, "group.version": 0})
    assert list(features.levels_lacking_in_log(image, same)) == []
    assert list(features.levels_lacking_in_log(image, KraftMetadata())) == []
