"""SCRAM users and quotas are written to and read from Apache Kafka's metadata log."""

from __future__ import annotations

from kwire.cluster.metadata.changes import Change, SetConfigs
from kwire.cluster.metadata.credentials import credentials_of, user_key
from kwire.cluster.metadata.entities import ENTITY_RESOURCE, entity_key
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.codecs.messages.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from kwire.codecs.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.log.directory import kraft_records
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.security.sasl.scram import Credential
from kwire.storage.takeover.entities import SINCE
from kwire.storage.takeover.kraft_changes import Replica, lacking, records_of
from kwire.storage.takeover.reconciling import from_kraft

ME = Replica(1)
ONE = Credential(b"salt", b"stored", b"server", 4096).text
OTHER = Credential(b"salt", b"stored", b"server", 8192).text
MORE = {"consumer_byte_rate": "3"}
BOTH = {"SCRAM-SHA-256": ONE, "SCRAM-SHA-512": OTHER}


def kraft_at(level: int = SINCE) -> KraftMetadata:
    return KraftMetadata(features=levels(level))


def levels(level: int) -> dict[str, int]:
    return {
        "metadata.version": level,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
    }


def image_at(level: int) -> ClusterImage:
    return ClusterImage("c").with_features(FinalizedFeatures(levels(level)))


def image_of(users: dict[str, dict[str, str]], level: int = SINCE) -> ClusterImage:
    image = image_at(level)
    for user, configs in users.items():
        image = image.with_configs(*user_key(user), configs)
    return image


def write(kraft: KraftMetadata, change: Change) -> None:
    """Write through bytes, as in the log."""
    for record, version in list(records_of(change, ME, kraft)):
        kraft.note(*kraft_records.decode(kraft_records.encode(record, version)))


def follow(image: ClusterImage, kraft: KraftMetadata) -> tuple[ClusterImage, list[str]]:
    says = []
    for finding in from_kraft(image, kraft, 1, {}, lambda *_: None):
        says.append(finding.says)
        assert finding.change is not None
        image = finding.change.apply_to(image)
    return image, says


def test_credential_change_becomes_the_records_of_a_controller() -> None:
    kraft = kraft_at()
    change = SetConfigs(*user_key("a,ü"), {}, BOTH)
    (first, _), (second, _) = records_of(change, ME, kraft)
    assert isinstance(first, UserScramCredentialRecord)
    assert (first.name, first.mechanism, first.iterations) == ("a,ü", 1, 4096)
    assert (first.salt, first.stored_key, first.server_key) == (b"salt", b"stored", b"server")
    assert isinstance(second, UserScramCredentialRecord)
    assert (second.mechanism, second.iterations) == (2, 8192)
    write(kraft, change)
    ((gone, _),) = records_of(SetConfigs(*user_key("a,ü"), BOTH, {"SCRAM-SHA-256": ONE}), ME, kraft)
    assert isinstance(gone, RemoveUserScramCredentialRecord)
    assert (gone.name, gone.mechanism) == ("a,ü", 2)


def test_other_entity_configs_are_not_written() -> None:
    change = SetConfigs(*user_key("a"), BOTH, {**BOTH, "another": "1"})
    assert list(records_of(change, ME, kraft_at())) == []
    change = SetConfigs(ENTITY_RESOURCE, "odd/a", {}, {"producer_byte_rate": "1"})
    assert list(records_of(change, ME, kraft_at())) == []


def test_quota_becomes_the_record_of_a_controller() -> None:
    kraft = kraft_at(0)
    key = entity_key({"user": "a", "client-id": None})
    values = {"request_percentage": "1.0E-5", "producer_byte_rate": "1000"}
    change = SetConfigs(*key, {}, values)
    (bytes_, _), (share, version) = records_of(change, ME, kraft)
    assert isinstance(bytes_, ClientQuotaRecord)
    assert bytes_.entity == [EntityData("user", "a"), EntityData("client-id", None)]
    assert (bytes_.key, bytes_.value, bytes_.remove) == ("producer_byte_rate", 1000.0, False)
    assert isinstance(share, ClientQuotaRecord)
    assert (share.key, share.value, version) == ("request_percentage", 1e-5, 0)
    write(kraft, change)
    assert follow(ClusterImage("c"), kraft)[0].configs_of(*key) == values
    ((gone, _),) = records_of(SetConfigs(*key, MORE, {}), ME, kraft)
    assert isinstance(gone, ClientQuotaRecord)
    assert (gone.key, gone.value, gone.remove) == ("consumer_byte_rate", 0.0, True)


def test_quota_record_has_the_bytes_of_apache_kafka() -> None:
    """The bytes are those that 4.3.1 wrote."""
    change = SetConfigs(
        *entity_key({"user": None, "client-id": "c"}), {}, {"producer_byte_rate": "1.5"}
    )
    ((record, version),) = records_of(change, ME, kraft_at())
    assert kraft_records.encode(record, version).hex() == (
        "010e00"
        "03057573657200000a636c69656e742d69640263001370726f64756365725f627974655f72617465"
        "3ff80000000000000000"
    )


def test_quotas_of_the_kraft_log_are_applied() -> None:
    kraft = kraft_at(0)
    write(kraft, SetConfigs(*user_key("new"), {}, {"producer_byte_rate": "1"}))
    write(kraft, SetConfigs(*entity_key({"ip": None}), {}, {"connection_creation_rate": "7"}))
    kraft.note(14, ClientQuotaRecord([EntityData("client-id", "c")], "consumer_byte_rate", 0.5))
    before = {"kept": BOTH, "gone": {**BOTH, "producer_byte_rate": "1"}}
    image, says = follow(image_of(before), kraft)
    assert says == [
        "client-id c: consumer_byte_rate changed",
        "ip (default): connection_creation_rate changed",
        "user gone: producer_byte_rate changed",
        "user new: producer_byte_rate changed",
    ]
    assert image.configs_of(*user_key("gone")) == BOTH
    assert image.configs_of(*user_key("new")) == {"producer_byte_rate": "1"}
    # A controller has let it pass, so it is kept.
    assert image.configs_of(*entity_key({"client-id": "c"})) == {"consumer_byte_rate": "0.5"}
    assert follow(image, kraft) == (image, [])
    assert list(lacking(kraft, image, ME)) == []


def test_missing_quotas_are_written_to_the_kraft_log() -> None:
    kraft = kraft_at()
    write(kraft, SetConfigs(*user_key("gone"), {}, {**BOTH, "producer_byte_rate": "1"}))
    write(kraft, SetConfigs(*user_key("other"), {}, {"producer_byte_rate": "1"}))
    image = image_of({"a": {"request_percentage": "2.5"}, "other": {"producer_byte_rate": "2"}})
    for change in list(lacking(kraft, image, ME)):
        write(kraft, change)
    assert kraft.quotas == {
        (("user", "a"),): {"request_percentage": 2.5},
        (("user", "other"),): {"producer_byte_rate": 2.0},
    }
    assert follow(image, kraft) == (image, [])


def test_kraft_log_without_credential_support_gets_none() -> None:
    change = SetConfigs(*user_key("a"), {}, BOTH)
    assert list(records_of(change, ME, kraft_at(SINCE - 1))) == []
    image = image_of({"a": BOTH}, SINCE - 1)
    assert follow(image, kraft_at(SINCE - 1)) == (image, [])


def test_credential_changes_of_the_kraft_log_are_applied() -> None:
    kraft = kraft_at()
    write(kraft, SetConfigs(*user_key("new"), {}, BOTH))
    write(kraft, SetConfigs(*user_key("kept"), {}, {"SCRAM-SHA-256": OTHER}))
    before = {"kept": {"SCRAM-SHA-256": ONE, "another": "1"}, "gone": BOTH}
    image, says = follow(image_of(before), kraft)
    assert says == [f"user {user}: credentials changed" for user in ("gone", "kept", "new")]
    assert credentials_of(image, "new") == BOTH
    assert not credentials_of(image, "gone")
    assert image.configs_of(*user_key("kept")) == {
        "SCRAM-SHA-256": OTHER,
        "another": "1",
    }
    assert follow(image, kraft) == (image, [])


def test_missing_credentials_are_written_to_the_kraft_log() -> None:
    kraft = kraft_at()
    write(kraft, SetConfigs(*user_key("gone"), {}, BOTH))
    image = image_of({"a": BOTH})
    for change in list(lacking(kraft, image, ME)):
        write(kraft, change)
    assert follow(image, kraft) == (image, [])
    assert list(lacking(kraft, image, ME)) == []


def test_description_of_a_change_has_no_secret() -> None:
    kraft = kraft_at()
    write(kraft, SetConfigs(*user_key("a"), {}, BOTH))
    _, says = follow(ClusterImage("c"), kraft)
    assert "salt" not in " ".join(says)
