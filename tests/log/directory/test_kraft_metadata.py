"""Reading metadata logs and checkpoints of Apache Kafka's controllers.

tests/log/data/kraft-4.3.1: a controller that also is broker 1, and broker 2 for a while, in a
quorum that the log itself tells of (KIP-853), in two segments. kraft-3.9.2: one node at the level
of 3.3, whose quorum is in quorum-state. In both, topics were made, grown, deleted and made again,
settings were changed and taken back, producers got ids, and the node was stopped twice. What is
expected here was printed by DumpLogSegments.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from kwire.codecs.batches import iter_batches
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.primitives import DecodeError
from kwire.codecs.uuids import uuid_bytes
from kwire.log.directory import kraft_metadata, kraft_records
from kwire.log.directory.files import Files
from kwire.log.directory.kraft_log import KraftLog
from kwire.log.directory.kraft_metadata import KraftMetadata, KraftPartition
from kwire.log.directory.kraft_records import Registration
from tests.log.configs import DEFAULTS
from tests.log.directory.conftest import NOW_MS

GOLDEN = Path(__file__).parent.parent / "data"
VERSIONS = ("4.3.1", "3.9.2")
CHECKPOINTS = [
    (version, path.name)
    for version in VERSIONS
    for path in sorted((GOLDEN / f"kraft-{version}").glob("*.checkpoint"))
]
SINCE_THE_CHECKPOINT = {"removed", "leftovers"}
FIRST, BOTH, THIRD = map(
    uuid_bytes, ("Sid9UNkvSMOQK4PHLqz-oA", "Itd5eRk7Sy65IhwDxi3N6Q", "PIf5gguVRr-QOA4Ctc2mMA")
)
SECOND, THIRD_BEFORE = map(uuid_bytes, ("gNTHx-MkQUywHxpQxQqPFQ", "A-L1uW_YSW-80vpG00s2qQ"))


def copied(tmp_path: Path, version: str, checkpoints: Sequence[str] = ()) -> Path:
    """The folder of that version, with these of its checkpoints."""
    folder = Path(shutil.copytree(GOLDEN / f"kraft-{version}", tmp_path / "__cluster_metadata-0"))
    for path in folder.glob("*.checkpoint"):
        if path.name not in checkpoints:
            path.unlink()
    return folder


def read(folder: Path) -> KraftMetadata:
    return kraft_metadata.read(folder, Files())


def facts(found: KraftMetadata) -> dict[str, object]:
    """The values that do not depend on the checkpoint they were read from."""
    values: dict[str, object] = {
        field.name: getattr(found, field.name)
        for field in fields(found)
        if not field.name.startswith("_") and field.name not in SINCE_THE_CHECKPOINT
    }
    return values | {"configs": {key: each for key, each in found.configs.items() if each}}


@pytest.mark.parametrize(("version", "checkpoint"), CHECKPOINTS)
def test_checkpoint_with_the_rest_of_the_log_equals_the_whole_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, version: str, checkpoint: str
) -> None:
    older = [name for of, name in CHECKPOINTS if of == version and name <= checkpoint]
    whole = copied(tmp_path / "whole", version)
    folder = copied(tmp_path / "checkpoint", version, older)
    assert facts(read(folder)) == facts(read(whole))
    assert not caplog.records


def test_metadata_log_of_apache_kafka_4_3_is_read() -> None:
    found = read(GOLDEN / "kraft-4.3.1")
    assert found.topics == {"first": FIRST, "both": BOTH, "third": THIRD}
    assert {topic: set(states) for topic, states in found.partitions.items()} == {
        FIRST: {0, 1, 2},
        BOTH: {0, 1},
        THIRD: {0, 1},
    }
    assert {key: each for key, each in found.configs.items() if each} == {
        (2, "first"): {"retention.ms": "5"},
        (2, "third"): {"segment.bytes": "2000000"},
        (4, ""): {"min.insync.replicas": "1"},
        (4, "1"): {"log.cleaner.threads": "2"},
    }
    assert found.features["metadata.version"] == 30
    assert found.features["transaction.version"] == 2
    assert found.voters == {1}
    assert found.next_producer_id == 2000
    assert found.broker_epochs == {1: 52, 2: 16}


def test_metadata_log_of_apache_kafka_3_9_is_read() -> None:
    found = read(GOLDEN / "kraft-3.9.2")
    assert set(found.topics) == {"first", "third"}
    assert found.features == {"metadata.version": 7}
    assert found.voters == {1}
    assert found.next_producer_id == 2000
    assert found.broker_epochs == {1: 26}
    states = found.partitions[found.topics["first"]]
    assert states == dict.fromkeys(range(3), KraftPartition(-1, 3, 3, (1,), (1,)))


def test_topics_deleted_after_the_checkpoint_are_listed(tmp_path: Path) -> None:
    whole = read(copied(tmp_path / "whole", "4.3.1"))
    assert whole.removed == {SECOND, THIRD_BEFORE}
    assert whole.leftovers == {
        "second": {"cleanup.policy": "compact"},
        "third": {"max.message.bytes": "2000"},
    }
    later = read(copied(tmp_path / "later", "4.3.1", [f"{64:020}-{2:010}.checkpoint"]))
    assert later.removed == {THIRD_BEFORE}


def test_every_partition_change_is_applied(tmp_path: Path) -> None:
    """both-0 loses a follower, is reassigned, is left by its leader, led, and left again."""
    folder = copied(tmp_path, "4.3.1")
    log = folder / f"{0:020}.log"
    (folder / f"{49:020}.log").unlink()
    found = read(folder).partitions[BOTH]
    assert found[0] == KraftPartition(-1, 2, 3, (1,), ())
    assert found[1] == KraftPartition(-1, 2, 2, (2, 1), ())
    whole = log.read_bytes()
    for last, expected in ((27, (1, 0, 0, (1, 2), (1, 2))), (37, (1, 0, 1, (1, 2), (1,)))):
        log.write_bytes(whole[: _end_of(folder, last)])
        assert read(folder).partitions[BOTH][0] == KraftPartition(*expected)
        log.write_bytes(whole)


def _end_of(folder: Path, offset: int) -> int:
    """The end position of the batch with `offset` in the first segment."""
    data = (folder / f"{0:020}.log").read_bytes()
    for position, header in iter_batches(data):
        if header.last_offset >= offset:
            return position + header.size_bytes
    raise AssertionError(offset)


@pytest.mark.parametrize("checkpoint", [49, 64])
def test_log_before_the_checkpoint_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, checkpoint: int
) -> None:
    expected = facts(read(GOLDEN / "kraft-4.3.1"))
    (name,) = (each for of, each in CHECKPOINTS if of == "4.3.1" and f"{checkpoint:020}" in each)
    folder = copied(tmp_path, "4.3.1", [name])
    (folder / f"{0:020}.log").write_bytes(b"damaged" * 100)
    assert facts(read(folder)) == expected
    assert not caplog.records


def test_records_before_a_damaged_batch_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = copied(tmp_path, "4.3.1")
    damaged = bytearray((folder / f"{0:020}.log").read_bytes())
    damaged[-1] ^= 1
    (folder / f"{0:020}.log").write_bytes(damaged)
    found = read(folder)
    assert set(found.topics) == {"first", "second", "both"}
    assert found.broker_epochs == {1: 13, 2: 16}
    assert "is read up to the damage" in caplog.text


# Transactions (KIP-866)


BEGIN, END, ABORT = (bytes((1, kind, 0, 0)) for kind in (23, 24, 25))
"""As Apache Kafka writes them, without the name and the reason, which they may lack."""


def topic(name: str) -> bytes:
    return kraft_records.encode(TopicRecord(name, name.encode() * 16), 0)


def test_records_of_a_transaction_are_applied_when_it_ends(tmp_path: Path) -> None:
    log = KraftLog(tmp_path, Files(), DEFAULTS, NOW_MS)
    log.append([topic("a"), BEGIN, topic("b"), ABORT, topic("c"), BEGIN, topic("d")], NOW_MS)
    assert set(read(tmp_path).topics) == {"a", "c"}
    log.append([topic("e"), END, topic("f"), BEGIN, topic("g")], NOW_MS)
    assert set(read(tmp_path).topics) == {"a", "c", "d", "e", "f"}
    log.close()


# Values


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("01000200000001 00 971d12fc95a741c390f2eaf34fefd763 0000000000000008", (1, 8)),
        ("01000300000001 00 5b4e1ca3422a467f93c7afb3a4dde42d 000000000000000b", (1, 11)),
    ],
)
def test_broker_registrations_of_intermediate_versions_are_read(
    written: str, expected: tuple[int, int]
) -> None:
    """The first bytes of records of Apache Kafka 3.9.2 at the metadata versions 3.4 and 3.7."""
    kind, record = kraft_records.decode(bytes.fromhex(written) + bytes(20))
    assert kind == kraft_records.REGISTER_BROKER
    assert record == Registration(*expected)


def test_varints_of_several_bytes_are_read() -> None:
    """Unsigned varints: types and versions may come to need two bytes, and may have them now."""
    plain = topic("a")
    long = bytes((0x81, 0, 0x80 | plain[1], 0, 0x80, 0)) + plain[3:]
    kind, record = kraft_records.decode(long)
    assert isinstance(record, TopicRecord)
    assert (kind, record.name, record.topic_id) == (2, "a", b"a" * 16)
    assert kraft_records.decode(bytes((1, 0x80, 1, 0))) == (128, None)
    with pytest.raises(DecodeError, match="frame version 128"):
        kraft_records.decode(bytes((0x80, 1, 2, 0)))


def test_record_of_an_unused_type_is_skipped() -> None:
    assert kraft_records.decode(bytes((1, 27, 0, 9, 9))) == (27, None)


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"currentVoters": 5}', b'{"currentVoters": [{"voter": 1}]}']
)
def test_damaged_quorum_state_has_no_voters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    folder = copied(tmp_path, "3.9.2")
    (folder / "quorum-state").write_bytes(content)
    assert read(folder).voters == set()
    assert "quorum-state is ignored because it is damaged" in caplog.text


def test_folder_without_quorum_state_has_no_voters(tmp_path: Path) -> None:
    folder = copied(tmp_path, "3.9.2")
    (folder / "quorum-state").unlink()
    assert read(folder).voters == set()
