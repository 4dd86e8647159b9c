"""The metadata log on the disk."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.cluster.stores.kraft import checkpoint, quorum_state, records
from kwire.cluster.stores.kraft.metadata_log import MetadataLog, Retention
from kwire.cluster.stores.kraft.observing import NOBODY, Leader, SnapshotId
from kwire.cluster.stores.kraft.records import BadMetadata, MetadataBatch
from kwire.cluster.stores.kraft.replaying import MetadataReplay
from kwire.codecs.batches import iter_batches
from kwire.log.directory import partition_metadata
from kwire.log.directory.files import Files
from tests.cluster.stores.kraft.recorded import CLUSTER, recording
from tests.log.configs import DEFAULTS

NOW_MS = 1_800_000_000_000
RECORDED = recording("from-4.4")
BATCHES = list(records.decode_batches(RECORDED.log))
END = BATCHES[-1].last_offset + 1
LAST_EPOCH = BATCHES[-1].epoch
SIZES = {
    header.base_offset: header.size_bytes for _, header in iter_batches(memoryview(RECORDED.log))
}
"""The size of each batch by its base offset."""
HUGE = 1 << 40


def opened(
    folder: Path, retention: Retention | None = None, segment_bytes: int = HUGE
) -> MetadataLog:
    config = replace(DEFAULTS, segment_bytes=segment_bytes)
    return MetadataLog(folder, Files(), config, NOW_MS, retention)


@pytest.fixture
def log(tmp_path: Path) -> MetadataLog:
    """The recorded log, appended as one answer of a controller."""
    log = opened(tmp_path)
    log.append(RECORDED.log, LAST_EPOCH, NOW_MS)
    return log


def offsets(batches: list[MetadataBatch]) -> list[tuple[int, int]]:
    return [(batch.base_offset, batch.last_offset) for batch in batches]


def replayed(batches: list[MetadataBatch]) -> MetadataReplay:
    replay = MetadataReplay(CLUSTER)
    for batch in batches:
        replay.add(batch)
    return replay


def test_log_gives_back_the_batches_it_was_given(log: MetadataLog) -> None:
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, END, LAST_EPOCH)
    assert offsets(list(log.batches(0, END))) == offsets(BATCHES)
    middle = BATCHES[20].base_offset
    assert offsets(list(log.batches(middle, END))) == offsets(BATCHES[20:])
    assert offsets(list(log.batches(0, middle))) == offsets(BATCHES[:20])
    assert list(log.batches(END, END)) == []


def test_log_that_comes_in_pieces_is_the_same_log(tmp_path: Path, rng: random.Random) -> None:
    log = opened(tmp_path)
    start = 0
    while start < len(RECORDED.log):
        # A controller cuts the last batch of an answer, and sends it whole the next time.
        piece = RECORDED.log[start : start + rng.randrange(2000, 4000)]
        log.append(bytearray(piece), LAST_EPOCH, NOW_MS)
        start = sum(size for offset, size in SIZES.items() if offset < log.end_offset)
    log.close()
    assert (tmp_path / "00000000000000000000.log").read_bytes() == RECORDED.log


def test_log_that_is_opened_again_continues(tmp_path: Path, log: MetadataLog) -> None:
    log.close()
    again = opened(tmp_path)
    assert (again.end_offset, again.last_epoch) == (END, LAST_EPOCH)
    assert offsets(list(again.batches(0, END))) == offsets(BATCHES)


def test_folder_of_an_apache_kafka_broker_is_continued(tmp_path: Path) -> None:
    for name, content in RECORDED.files.items():
        (tmp_path / name).write_bytes(content)
    log = opened(tmp_path)
    assert [tuple(each) for each in log.snapshots] == sorted(RECORDED.snapshots)
    assert (log.end_offset, log.last_epoch) == (END, LAST_EPOCH)
    newest = log.snapshots[-1]
    replay = MetadataReplay(CLUSTER)
    replay.load(*newest, list(log.snapshot(newest)))
    for batch in log.batches(newest.end_offset, END):
        replay.add(batch)
    whole = replayed(BATCHES).image
    assert replay.image.topics == whole.topics
    assert replay.image.brokers == whole.brokers


def test_folder_names_the_topic_and_the_epochs_as_apache_kafka_does(
    tmp_path: Path, log: MetadataLog
) -> None:
    log.close()
    assert partition_metadata.read(Files(), tmp_path) == bytes(15) + b"\1"
    second = next(batch.base_offset for batch in BATCHES if batch.epoch == 2)
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == f"0\n2\n1 0\n2 {second}\n"


def test_truncated_log_ends_where_it_was_cut_and_knows_the_epoch_before(log: MetadataLog) -> None:
    second = next(batch.base_offset for batch in BATCHES if batch.epoch == 2)
    assert log.end_offset_for(1) == (1, second)
    assert log.end_offset_for(9) == (LAST_EPOCH, END)
    log.truncate(second, NOW_MS)
    assert (log.end_offset, log.last_epoch) == (second, 1)
    log.append(RECORDED.log[sum(SIZES[each] for each in SIZES if each < second) :], 2, NOW_MS)
    assert log.end_offset == END


def test_downloaded_snapshot_replaces_log_and_earlier_snapshots(
    tmp_path: Path, log: MetadataLog
) -> None:
    (end_offset, epoch), content = sorted(RECORDED.snapshots.items())[-1]
    own = replayed(BATCHES[:20])
    log.write_snapshot(
        first := SnapshotId(own.end_offset, own.epoch), checkpoint.snapshot_of(own, NOW_MS)
    )
    log.keep_snapshot(first, NOW_MS)
    beyond = SnapshotId(end_offset + 100, epoch)
    log.begin_snapshot(beyond)
    for start in range(0, len(content), 1000):
        log.add_piece(content[start : start + 1000])
    batches = log.begun_batches()
    log.install(NOW_MS)
    assert log.snapshots == [beyond]
    assert (log.start_offset, log.end_offset) == (beyond.end_offset, beyond.end_offset)
    assert log.last_epoch == epoch
    log.close()
    again = opened(tmp_path)
    assert (again.end_offset, again.last_epoch) == (beyond.end_offset, epoch)
    assert offsets(list(again.snapshot(beyond))) == offsets(batches)
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".deleted", ".part")]


def test_unfinished_snapshot_is_removed_at_the_next_start(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.begin_snapshot(SnapshotId(5, 1))
    log.add_piece(b"part")
    assert list(tmp_path.glob("*.part"))
    assert opened(tmp_path).snapshots == []
    assert not list(tmp_path.glob("*.part"))


def test_stop_between_snapshot_and_truncation_is_made_good_at_the_next_start(
    tmp_path: Path, log: MetadataLog
) -> None:
    log.close()
    (_, epoch), content = sorted(RECORDED.snapshots.items())[-1]
    beyond = SnapshotId(END + 50, epoch)
    (tmp_path / f"{beyond.end_offset:020d}-{epoch:010d}.checkpoint").write_bytes(content)
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset) == (beyond.end_offset, beyond.end_offset)


def own_snapshots(log: MetadataLog, *counts: int) -> list[SnapshotId]:
    """Make snapshots of the first batches, and return their ids."""
    made = []
    for count in counts:
        replay = replayed(BATCHES[:count])
        made.append(SnapshotId(replay.end_offset, replay.epoch))
        log.write_snapshot(made[-1], checkpoint.snapshot_of(replay, NOW_MS))
        log.keep_snapshot(made[-1], NOW_MS)
    return made


def test_old_snapshots_and_the_log_before_the_newest_go_by_size(tmp_path: Path) -> None:
    log = opened(tmp_path, Retention(bytes_max=0, age_ms_max=-1), segment_bytes=2000)
    log.append(RECORDED.log, LAST_EPOCH, NOW_MS)
    made = own_snapshots(log, 20, 40, 60)
    assert log.snapshots == made[-1:]
    assert log.start_offset == made[-1].end_offset
    log.close()
    again = opened(tmp_path)
    assert 0 < again.start_offset <= made[-1].end_offset
    assert offsets(list(again.batches(made[-1].end_offset, END))) == offsets(BATCHES[60:])


def test_old_snapshots_go_by_age(log: MetadataLog) -> None:
    log.retention = Retention(bytes_max=-1, age_ms_max=1000)
    made = own_snapshots(log, 20, 40)
    assert log.snapshots == made[-1:], "the records are older than a second"
    log.retention = Retention(bytes_max=-1, age_ms_max=-1)
    assert len(own_snapshots(log, 50, 60)) == 2
    assert len(log.snapshots) == 3


def test_log_without_its_beginning_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path, Retention(bytes_max=0, age_ms_max=-1), segment_bytes=2000)
    log.append(RECORDED.log, LAST_EPOCH, NOW_MS)
    own_snapshots(log, 40, 60)
    log.close()
    for path in tmp_path.glob("*.checkpoint"):
        path.unlink()
    with pytest.raises(BadMetadata, match=r"no snapshot .* remove the folder"):
        opened(tmp_path)


@pytest.mark.parametrize(("name", "static"), [("from-4.4", None), ("from-3.9", (100,))])
def test_quorum_state_is_written_as_apache_kafka_does(
    tmp_path: Path, name: str, static: tuple[int, ...] | None
) -> None:
    expected = recording(name).files["quorum-state"]
    state = json.loads(expected)
    leader = Leader(state["leaderId"], state["leaderEpoch"], None)
    quorum_state.write(Files(), tmp_path, leader, static)
    assert (tmp_path / "quorum-state").read_bytes() == expected
    assert quorum_state.read(Files(), tmp_path) == leader


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b'{"leaderId":"x"}'])
def test_quorum_state_that_cannot_be_read_names_nobody(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "quorum-state").write_bytes(content)
    assert quorum_state.read(Files(), tmp_path) == NOBODY
