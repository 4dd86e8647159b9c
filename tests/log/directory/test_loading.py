"""A start treats folders and checkpoint lines as a plain model says."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.log import LogDirError, LogManager, run_all
from kwire.log.config import LogConfig
from kwire.log.directory import checkpoints, partition_metadata
from kwire.log.recovery.loader import ZERO_UUID
from tests.log.configs import DEFAULTS, log_config
from tests.log.directory.conftest import (
    NOW_MS,
    TOPIC_ID,
    Clock,
    MakeManager,
    clock,
    kill,
    manager_of,
)
from tests.log.directory.test_new_topic import OTHER_ID

if TYPE_CHECKING:
    from tests.log.conftest import Append

__all__ = ["clock", "manager_of"]  # fixtures

KEY = "t", 0
IDS = {"ours": TOPIC_ID, "other": OTHER_ID, "none": None}


@pytest.fixture
def two_folders(manager_of: MakeManager, append: Append, tmp_path: Path) -> Path:
    """Folders of t-0 with three records in `a` and five in `b`, flushed and not stopped cleanly."""
    for name, records in (("a", 3), ("b", 5)):
        manager = manager_of(name)
        log = manager.create("t", TOPIC_ID, 0)
        append(log, records)
        log.flush()
        kill(manager)
    return tmp_path


def served(ids: tuple[str, ...], known: str, flushed: tuple[bool, ...]) -> str:
    """Which of the two is served; "" for none, "?" where nobody can tell.

    Without a metadata to ask both may be right.  A topic that is not there any more may be found
    again by its name: the first folder is kept for that.  Else a folder of another id is another
    topic's, one of the topic's own id comes before one without, and what never was on disk is no
    loss.
    """
    if known == "unknown":
        return "?"
    if known == "no topic":
        return "a"
    candidates = [name for name, found in zip("ab", ids, strict=True) if found != "other"]
    own = [name for name, found in zip("ab", ids, strict=True) if found == "ours"]
    if len(candidates) < 2:
        return "".join(candidates)
    if len(own) == 1:
        return own[0]
    return "" if not own and not any(flushed) else "?"


def strays(directory: Path) -> int:
    return len(list(directory.glob("t-0.*-stray")))


@pytest.mark.parametrize("known", ["unknown", "no topic", "ours"])
@pytest.mark.parametrize("ids", list(itertools.product(IDS, repeat=2)), ids="-".join)
def test_one_of_two_folders_of_a_partition_is_served_by_topic_id(
    two_folders: Path, manager_of: MakeManager, ids: tuple[str, str], known: str
) -> None:
    for flushed in itertools.product([False, True], repeat=2):
        for name, of, is_flushed in zip("ab", ids, flushed, strict=True):
            folder = two_folders / name / "t-0"
            for stray in (two_folders / name).glob("t-0.*-stray"):
                stray.rename(folder)
            metadata = folder / "partition.metadata"
            metadata.unlink(missing_ok=True)
            if (found := IDS[of]) is not None:
                metadata.write_bytes(partition_metadata.content(found))
            line = "0\n1\nt 0 2\n" if is_flushed else "0\n0\n"
            (two_folders / name / checkpoints.RECOVERY_POINTS).write_text(line)
        manager = manager_of("a", "b", load=False)
        wanted = served(ids, known, flushed)
        topics = {"t": TOPIC_ID} if known == "ours" else {}
        topic_id_of = None if known == "unknown" else topics.get
        if wanted == "?":
            with pytest.raises(LogDirError, match=re.escape(f"{two_folders}/a/t-0 and in ")):
                manager.load(None, topic_id_of)
            kill(manager)
            continue
        manager.load(None, topic_id_of)
        log = manager.logs.get(KEY)
        found_in = "" if log is None else log.dir.parent.name
        assert found_in == wanted, (flushed, known)
        if log is not None:
            assert log.log_end_offset == {"a": 3, "b": 5}[wanted]
            assert log.recovery_point == 2 * flushed["ab".index(wanted)]
            assert log.topic_id == (IDS[ids["ab".index(wanted)]] or ZERO_UUID)
        for name in "ab":
            assert strays(two_folders / name) == (name != wanted)
            assert (two_folders / name / "t-0").exists() == (name == wanted)
        kill(manager)


LINES = {
    checkpoints.RECOVERY_POINTS: {("t", 0): 4, ("t", 1): 99, ("u", 0): 0, ("gone", 7): 3},
    checkpoints.LOG_START_OFFSETS: {("t", 0): 2, ("t", 1): 1, ("gone", 7): 3},
    checkpoints.HIGH_WATERMARKS: {("t", 0): 5, ("u", 0): 1, ("gone", 7): 3},
    checkpoints.CLEANER_OFFSETS: {("t", 1): 3, ("gone", 8): 3},
}


@pytest.mark.parametrize("clean", [True, False])
def test_each_log_is_loaded_with_its_own_checkpoint_lines(
    manager_of: MakeManager, append: Append, clock: Clock, tmp_path: Path, clean: bool
) -> None:
    """Checkpoint lines of logs that do not exist are outdated, and are ignored."""
    keys = [("t", 0), ("t", 1), ("u", 0), ("v", 0)]
    manager = manager_of()
    for number, (topic, partition) in enumerate(keys):
        append(manager.create(topic, bytes([number + 1]) * 16, partition), 6 + number)
    manager.close()
    marker = tmp_path / "a" / ".kafka_cleanshutdown"
    if not clean:
        marker.unlink()
    for name, lines in LINES.items():
        (tmp_path / "a" / name).write_bytes(checkpoints.encode_offsets(lines))
    created_for: list[str] = []

    def config_for(topic: str) -> LogConfig:
        created_for.append(topic)
        return log_config(segment_bytes=1000 + ord(topic))

    clock.now_ms += 7
    manager = manager_of(load=False)
    assert manager.topics_found() == {"t", "u", "v"}
    assert manager.compacted_topics() == {"t", "gone"}
    manager.load(config_for)
    assert sorted(created_for) == ["t", "u", "v"], "one object for a topic"
    assert {key: (log.topic, log.partition) for key, log in manager.logs.items()} == {
        key: key for key in keys
    }
    assert {
        key: (
            log.log_start_offset,
            log.log_end_offset,
            log.recovery_point,
            log.first_dirty_offset,
            log.config.segment_bytes,
            log.durability.last_flush_ms,
        )
        for key, log in manager.logs.items()
    } == {
        ("t", 0): (2, 6, 6 if clean else 4, None, 1000 + ord("t"), NOW_MS + 7),
        ("t", 1): (1, 7, 7, 3, 1000 + ord("t"), NOW_MS + 7),
        ("u", 0): (0, 8, 8 if clean else 0, None, 1000 + ord("u"), NOW_MS + 7),
        ("v", 0): (0, 9, 9 if clean else 0, None, 1000 + ord("v"), NOW_MS + 7),
    }
    assert manager.high_watermarks == {("t", 0): 5, ("u", 0): 1}
    assert not marker.exists()
    (directory,) = manager.online_dirs
    assert [manager.dirs.logs_in(directory)] == [list(manager.logs.values())]
    assert sorted(directory.outdated(("gone", 7))) == sorted(
        name for name, lines in LINES.items() if ("gone", 7) in lines
    )
    assert directory.outdated(("gone", 8)) == [checkpoints.CLEANER_OFFSETS]
    assert directory.outdated(("t", 0)) == []
    run_all(manager.maintain(clock.now_ms))
    assert directory.outdated() == []
    for name in LINES:
        assert b"gone" not in (tmp_path / "a" / name).read_bytes()


def test_load_opens_keeps_and_removes_folders_by_their_names(
    manager_of: MakeManager, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A partition's folder is opened; a deleted one is removed after its delay."""
    deleted = f"t-1.{'0' * 32}-delete"
    future = f"t-2.{'0' * 32}-future"
    stray = f"t-3.{'0' * 32}-stray"
    for name in ("t-0", deleted, future, stray, "x", "__cluster_metadata-0"):
        (tmp_path / "a" / name).mkdir(parents=True)
    manager = manager_of()
    assert set(manager.logs) == {KEY}
    (folder,) = manager.maintenance.deleted
    assert folder.path == tmp_path / "a" / deleted
    assert folder.due_ms == NOW_MS + DEFAULTS.file_delete_delay_ms
    not_folders = {
        record.message.split(" is not")[0]
        for record in caplog.records
        if "not a partition's folder" in record.message
    }
    assert not_folders == {str(tmp_path / "a" / name) for name in (stray, "x")}
    run_all(manager.maintain(folder.due_ms - 1))
    assert folder.path.exists()
    run_all(manager.maintain(folder.due_ms))
    assert not folder.path.exists()
    assert (tmp_path / "a" / stray).exists()


def test_clean_stop_writes_marker_and_checkpoints(
    manager_of: MakeManager, append: Append, tmp_path: Path
) -> None:
    """Each directory has its own lines, with the given high watermarks, and the epoch."""
    manager = manager_of("a", "b")
    logs = [manager.create("t", TOPIC_ID, number) for number in range(4)]
    for number, log in enumerate(logs):
        append(log, 10 + number)
    logs[2].first_dirty_offset = 5
    manager.broker_epoch = 77
    manager.close(lambda log: log.log_end_offset - 1)
    for name in "ab":
        here = [log for log in logs if log.dir.parent.name == name]
        assert len(here) == 2
        lines = {
            checkpoint: checkpoints.read_offsets(manager.files, tmp_path / name / checkpoint)
            for checkpoint in checkpoints.OF_PARTITIONS
        }
        ends = {("t", log.partition): log.log_end_offset for log in here}
        assert lines == {
            checkpoints.RECOVERY_POINTS: ends,
            checkpoints.LOG_START_OFFSETS: {},
            checkpoints.HIGH_WATERMARKS: {key: end - 1 for key, end in ends.items()},
            checkpoints.CLEANER_OFFSETS: {("t", 2): 5} if logs[2] in here else {},
        }
        stopped = json.loads((tmp_path / name / ".kafka_cleanshutdown").read_text())
        assert stopped == {"version": 0, "brokerEpoch": 77}


def test_producer_settings_apply_to_existing_and_new_logs(manager_of: MakeManager) -> None:
    manager: LogManager = manager_of()
    before = manager.create("t", TOPIC_ID, 0)
    manager.update_producers(expiration_ms=123, verify_transactions=False)
    after = manager.create("t", TOPIC_ID, 1)
    for log in (before, after):
        assert log.producers.expiration_ms == 123
        assert not log.producers.verify_transactions


@pytest.mark.parametrize(
    ("markers", "epoch"),
    [
        (['{"version":0,"brokerEpoch":77}', '{"version":0,"brokerEpoch":77}'], 77),
        (['{"version":0,"brokerEpoch":77}', '{"version":0,"brokerEpoch":78}'], -1),
        (['{"version":0,"brokerEpoch":77}', None], -1),
        (['{"version":0,"brokerEpoch":77}', ""], -1),
        ([None, None], -1),
    ],
)
def test_last_broker_epoch_is_known_if_all_directories_stopped_cleanly_in_it(
    tmp_path: Path, markers: list[str | None], epoch: int
) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, marker in zip(paths, markers, strict=True):
        path.mkdir()
        if marker is not None:
            (path / ".kafka_cleanshutdown").write_text(marker)
    manager = LogManager(paths, defaults=DEFAULTS)
    assert manager.last_broker_epoch == epoch
    manager.load()
    assert manager.last_broker_epoch == -1, "it has not stopped cleanly yet"
    manager.close()
