"""The stay of kwire in a directory: what it writes and logs, and disk failures."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kwire.cluster.metadata.changes import CreateTopic
from kwire.cluster.metadata.image import FIRST_PRODUCER_ID, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.stores.local import LocalStore
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.log import LogDirError, LogError, LogManager
from kwire.log.directory import kraft_metadata
from kwire.log.directory.files import Files
from kwire.log.directory.kraft_log import KraftLog
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.settings import BrokerConfig
from kwire.storage.takeover import on_disk
from kwire.storage.takeover.kraft_changes import Replica
from kwire.storage.takeover.mirror import KraftMirror
from kwire.storage.takeover.stay import MARK, Stay
from tests.log.configs import DEFAULTS
from tests.storage.takeover.test_stay import append, vote

NOW_MS = 1_700_000_000_000
TOPIC = TopicImage("t", b"t" * 16, (PartitionImage(1, 0, 0, (1,), (1,)),))


class Opened:
    """Directories with their logs and metadata, and kwire's stay in them."""

    def __init__(
        self, directory: Path, *, version: int = 1, first: tuple[CreateTopic, ...] = ()
    ) -> None:
        directory.mkdir(exist_ok=True)
        key = "node.id" if version else "broker.id"
        content = f"version={version}\n{key}=1\ncluster.id=c\n"
        (directory / "meta.properties").write_text(content)
        self.config = BrokerConfig({"node.id": "1", "log.dirs": str(directory)})
        self.logs = LogManager(
            [directory], defaults=DEFAULTS, clock=lambda: NOW_MS, verify_transactions=False
        )
        self.store = LocalStore(directory / "kwire-metadata.log", "c", first=first)
        self.stay = Stay(self.config, self.logs, lambda: NOW_MS)

    def close(self) -> None:
        self.store.close()
        self.logs.close()


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def opened(closing: ExitStack, directory: Path, version: int = 1, *first: CreateTopic) -> Opened:
    found = Opened(directory, version=version, first=first)
    closing.callback(found.close)
    return found


def with_metadata_log(directory: Path, *voters: int) -> Path:
    """An empty KRaft metadata log with these voters."""
    folder = directory / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    vote(directory, *voters)
    append(directory, [])
    return folder


# -- who may write to the metadata log


@pytest.mark.parametrize("voters", [(1,), (2,), (1, 2), ()])
async def test_metadata_log_is_written_if_this_node_is_the_only_voter(
    tmp_path: Path, closing: ExitStack, caplog: pytest.LogCaptureFixture, voters: tuple[int, ...]
) -> None:
    with_metadata_log(tmp_path, *voters)
    node = opened(closing, tmp_path, 1, CreateTopic(TOPIC))
    await node.stay.before_loading(node.store)
    is_mine = voters == (1,)
    assert (node.store.ahead is not None) == is_mine
    assert (f"log (its voters are {sorted(voters)})" in caplog.text) == (not is_mine)
    node.stay.close()


def test_partition_with_replicas_on_other_brokers_is_not_taken_over(
    tmp_path: Path, closing: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    node = opened(closing, tmp_path)
    kraft = KraftMetadata(voters={1})
    mine = kraft_metadata.KraftPartition(-1, 0, 0, (1,), ())
    for replicas in ((1,), (1, 2), (2,)):
        state = kraft_metadata.KraftPartition(-1, 0, 0, replicas, ())
        kraft.partitions[TOPIC.id] = {0: mine, 1: state}
        assert node.stay._may_write(kraft) == (replicas == (1,))
    assert caplog.text.count("log (other brokers have partitions)") == 2


# -- what logs are opened with, and what they tell


async def test_logs_are_opened_with_the_configs_of_their_topics(
    tmp_path: Path, closing: ExitStack
) -> None:
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ncleaned 0 1\n")
    node = opened(closing, tmp_path)
    image = CreateTopic(TOPIC, {"a": "1"}).apply_to(ClusterImage("c"))
    image = image.with_configs(2, "unknown", {"b": "2"})
    assert node.stay.configs_of(image, "t") == {"a": "1"}
    assert node.stay.configs_of(image, "unknown") == {}
    assert node.stay.configs_of(image, "cleaned") == {"cleanup.policy": "compact"}
    offsets = node.stay.configs_of(image, "__consumer_offsets")
    assert offsets["cleanup.policy"] == "compact"
    assert None not in offsets.values()
    kraft = tmp_path / "kraft"
    with_metadata_log(kraft, 1)
    (kraft / "cleaner-offset-checkpoint").write_text("0\n1\ncleaned 0 1\n")
    other = opened(closing, kraft)
    await other.stay.before_loading(other.store)
    assert other.stay.configs_of(image, "unknown") == {"b": "2"}
    assert other.stay.configs_of(image, "cleaned") == {}
    other.stay.close()


@pytest.mark.parametrize(
    ("version", "is_known", "was_clean", "logs_tell"),
    [
        (1, False, False, True),
        (1, True, True, False),
        (0, True, True, True),
        (0, True, False, False),
        (0, False, False, True),
    ],
)
async def test_logs_are_trusted_first_and_after_clean_stops_with_zookeeper(
    tmp_path: Path,
    closing: ExitStack,
    version: int,
    is_known: bool,
    was_clean: bool,
    logs_tell: bool,
) -> None:
    if was_clean:
        (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    node = opened(closing, tmp_path, version, *([CreateTopic(TOPIC)] if is_known else []))
    image = await node.stay.before_loading(node.store)
    assert image == await node.store.load()
    assert node.stay.trusted(image) is (None if logs_tell else image)


async def test_logs_are_not_trusted_beside_a_metadata_log(
    tmp_path: Path, closing: ExitStack
) -> None:
    with_metadata_log(tmp_path, 1)
    node = opened(closing, tmp_path)
    image = await node.stay.before_loading(node.store)
    assert node.stay.trusted(image) is image
    node.stay.close()


@pytest.mark.parametrize(
    ("producer_id", "following"),
    [
        (FIRST_PRODUCER_ID - 1, 0),
        (FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 1),
        (FIRST_PRODUCER_ID + 7, FIRST_PRODUCER_ID + 8),
    ],
)
async def test_producer_ids_of_logs_are_used_at_the_first_start_only(
    tmp_path: Path, closing: ExitStack, producer_id: int, following: int
) -> None:
    for first, expected in (((), following), ((CreateTopic(TOPIC),), 0)):
        node = opened(closing, tmp_path / str(len(first)), 1, *first)
        node.logs.load()
        batch = build(
            [Record(0, NOW_MS, b"k", b"v", [])],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
        log = node.logs.create("t", TOPIC.id, 0)
        await node.stay.before_loading(node.store)
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
        image = await node.stay.after_loading(node.store)
        assert image.next_producer_id == expected
        assert image == await node.store.load()


async def test_later_epochs_are_followed_beside_an_unknown_partition(
    tmp_path: Path, closing: ExitStack
) -> None:
    """kwire was killed while it created that partition."""
    node = opened(closing, tmp_path, 1, CreateTopic(TOPIC))
    node.logs.load()
    await node.stay.before_loading(node.store)
    for index in (1, 0):
        batch = build([Record(0, NOW_MS, b"k", b"v", [])])
        log = node.logs.create("t", TOPIC.id, index)
        log.append(batch, leader_epoch=5, now_ms=NOW_MS)
    image = await node.stay.after_loading(node.store)
    [state] = image.topics["t"].partitions
    assert (state.leader_epoch, state.partition_epoch) == (5, 1)


# -- disks that fail


def broken(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


async def test_unreadable_metadata_log_raises_log_dir_error(
    tmp_path: Path, closing: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_metadata_log(tmp_path, 1)
    node = opened(closing, tmp_path)
    monkeypatch.setattr(kraft_metadata, "read", broken)
    with pytest.raises(LogDirError) as raised:
        await node.stay.before_loading(node.store)
    assert str(raised.value) == f"the KRaft metadata in {folder}: [Errno 5] Input/output error"


async def test_unreadable_logs_at_a_takeover_raise_log_dir_error(
    tmp_path: Path, closing: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = opened(closing, tmp_path)
    await node.stay.before_loading(node.store)
    monkeypatch.setattr(on_disk, "by_topic", broken)
    with pytest.raises(LogDirError) as raised:
        await node.stay.after_loading(node.store)
    assert (
        str(raised.value)
        == "the logs of the last owner cannot be read: [Errno 5] Input/output error"
    )


async def test_stop_logs_a_metadata_log_that_cannot_be_closed(
    tmp_path: Path,
    closing: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with_metadata_log(tmp_path, 1)
    node = opened(closing, tmp_path)
    await node.stay.before_loading(node.store)
    close = KraftLog.close

    def closes_and_fails(log: KraftLog) -> None:
        close(log)
        broken()

    monkeypatch.setattr(KraftLog, "close", closes_and_fails)
    node.stay.close()
    assert "could not be closed: [Errno 5] Input/output error" in caplog.text
    assert [each.levelno for each in caplog.records if "closed" in each.message] == [logging.ERROR]
    assert not (tmp_path / MARK).exists(), "it is followed at the next start"


async def test_stop_writes_the_mark_of_the_metadata_log(tmp_path: Path, closing: ExitStack) -> None:
    folder = with_metadata_log(tmp_path, 2)
    node = opened(closing, tmp_path)
    await node.stay.before_loading(node.store)
    append(tmp_path, [], b"")
    node.stay.close()
    mark = {"format": 1, "kraft": kraft_metadata.fingerprint(folder)}
    assert json.loads((tmp_path / MARK).read_text()) == mark
    assert (tmp_path / MARK).read_text().endswith("}\n")


@pytest.mark.parametrize("has_cause", [True, False])
def test_refused_append_to_the_metadata_log_raises_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_cause: bool
) -> None:
    """The error has the errno of the disk, if there is one."""
    folder = with_metadata_log(tmp_path, 1)
    mirror = KraftMirror(folder, Files(), Replica(1), lambda: NOW_MS)

    def refuses(*_: object) -> None:
        error = LogError(ErrorCode.KAFKA_STORAGE_ERROR, "why")
        raise error from OSError(errno.ENOSPC, "No space") if has_cause else error

    with monkeypatch.context() as patch:
        patch.setattr(KraftLog, "append", refuses)
        with pytest.raises(OSError, match="the KRaft metadata log takes no records") as raised:
            mirror.raise_producer_ids(5)
    reason = "the KRaft metadata log takes no records: "
    assert raised.value.errno == (errno.ENOSPC if has_cause else None)
    assert str(raised.value).endswith(reason + ("No space" if has_cause else "why"))
    mirror.close()


def test_next_producer_id_only_increases(tmp_path: Path) -> None:
    folder = with_metadata_log(tmp_path, 1)
    mirror = KraftMirror(folder, Files(), Replica(1), lambda: NOW_MS)
    mirror.note((), ClusterImage("c"))
    mirror.noted()
    mirror.raise_producer_ids(41)
    assert kraft_metadata.read(folder, Files()).next_producer_id == 42
    mirror.close()
    mirror = KraftMirror(folder, Files(), Replica(1), lambda: NOW_MS)
    mirror.note((), ClusterImage("c"))
    mirror.raise_producer_ids(41)
    assert kraft_metadata.read(folder, Files()).next_producer_id == 42
    mirror.close()
