"""The manager of a broker's log directories: loading, upkeep and failed disks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.log import (
    Intervals,
    Log,
    LogDirError,
    LogDirLocked,
    LogError,
    LogManager,
    delete_expired_segments,
    delete_records,
    run_all,
)
from kwire.log.directory.files import Files
from kwire.log.directory.manager import open_files_max
from tests.log.configs import DEFAULTS, log_config
from tests.log.directory.conftest import NOW_MS, TOPIC_ID, Clock, MakeManager, kill
from tests.log.failing_disk import FailingDisk

if TYPE_CHECKING:
    from tests.log.conftest import Append


def test_logs_are_the_same_after_a_clean_stop(
    manager_of: MakeManager, append: Append, tmp_path: Path
) -> None:
    manager = manager_of()
    for index in range(3):
        append(manager.create("t", TOPIC_ID, index), index + 1)
    delete_records(manager.logs["t", 2], 2, 3)
    manager.close()
    directory = tmp_path / "a"
    assert (directory / "recovery-point-offset-checkpoint").read_text() == (
        "0\n3\nt 0 1\nt 1 2\nt 2 3\n"
    )
    assert (directory / "replication-offset-checkpoint").read_text() == (
        "0\n3\nt 0 1\nt 1 2\nt 2 3\n"
    )
    assert (directory / "log-start-offset-checkpoint").read_text() == "0\n1\nt 2 2\n"
    stopped = (directory / ".kafka_cleanshutdown").read_text()
    assert stopped == '{"version":0,"brokerEpoch":-1}', "as Apache Kafka writes it"
    again = manager_of()
    assert not (directory / ".kafka_cleanshutdown").exists()
    assert {key: log.log_end_offset for key, log in again.logs.items()} == {
        ("t", 0): 1,
        ("t", 1): 2,
        ("t", 2): 3,
    }
    assert again.logs["t", 2].log_start_offset == 2
    assert again.logs["t", 0].topic_id == TOPIC_ID
    assert again.high_watermarks["t", 2] == 3


def test_kill_leaves_no_clean_stop_marker(manager_of: MakeManager, append: Append) -> None:
    manager = manager_of()
    append(manager.create("t", TOPIC_ID, 0), 5)
    kill(manager)
    again = manager_of()
    assert again.logs["t", 0].log_end_offset == 5
    assert again.logs["t", 0].recovery_point == 0


def test_start_after_a_kill_reads_only_above_the_recovery_point(
    manager_of: MakeManager, append: Append, clock: Clock
) -> None:
    """Its time depends on the bytes above the recovery point, not on the size of the log."""
    manager = manager_of()
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 5)
    log.roll(clock.now_ms)
    for minutes in (1, 2):  # flushed, then written down
        run_all(manager.maintain(clock.now_ms + 60_000 * minutes))
    assert log.recovery_point == 5
    append(log, 2)
    first = log.segments.first.path
    kill(manager)
    data = bytearray(first.read_bytes())
    data[-1] ^= 1  # a scan would end the log here
    first.write_bytes(data)
    assert manager_of().logs["t", 0].log_end_offset == 7


@pytest.mark.parametrize(
    ("may_open", "of_segments"), [(20, 64), (1024, 512), (1 << 20, 1 << 19), (1 << 40, 1 << 19)]
)
def test_half_of_the_open_file_limit_is_for_segments(
    monkeypatch: pytest.MonkeyPatch, may_open: int, of_segments: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (may_open, 1 << 40))
    assert open_files_max() == of_segments


def test_directory_that_was_not_loaded_is_not_marked_clean(
    manager_of: MakeManager, append: Append, tmp_path: Path
) -> None:
    manager = manager_of()
    append(manager.create("t", TOPIC_ID, 0), 5)
    kill(manager)
    log_file = tmp_path / "a" / "t-0" / "00000000000000000000.log"
    log_file.write_bytes(log_file.read_bytes() + b"torn")
    manager_of(load=False).close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert manager_of().logs["t", 0].log_end_offset == 5


def test_load_uses_the_configs_of_each_topic(manager_of: MakeManager) -> None:
    manager = manager_of()
    manager.create("t-with-dashes", TOPIC_ID, 0)
    manager.close()
    again = manager_of(load=False)
    again.load(lambda topic: log_config(retention_ms=len(topic)))
    assert again.logs["t-with-dashes", 0].config.retention_ms == 13


def test_second_manager_of_a_directory_is_refused(manager_of: MakeManager, tmp_path: Path) -> None:
    manager_of("a", "b")
    with pytest.raises(LogDirLocked, match=r"b is in use: process \d+ holds the lock"):
        LogManager([tmp_path / "c", tmp_path / "b"], defaults=DEFAULTS)
    manager_of("c")  # and the directory it had got is free again


@pytest.mark.slow
def test_second_process_on_a_directory_is_refused(manager_of: MakeManager, tmp_path: Path) -> None:
    program = (
        "import sys; from kwire.log import LogManager\n"
        "from tests.log.configs import DEFAULTS\n"
        "try: LogManager(sys.argv[1:], defaults=DEFAULTS)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    manager = manager_of()
    for locked in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "a")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.startswith("LogDirLocked") == locked, done
        assert (f"in use: process {os.getpid()} holds the lock on" in done.stdout) == locked
        manager.close()


def test_new_partition_is_created_in_the_directory_with_fewest_logs(
    manager_of: MakeManager,
) -> None:
    manager = manager_of("a", "b", "c")
    for index in range(6):
        manager.create("t", TOPIC_ID, index)
    where = [manager.logs["t", index].dir.parent.name for index in range(6)]
    assert sorted(where) == ["a", "a", "b", "b", "c", "c"]
    for index in range(6):
        if where[index] == "b":
            manager.delete("t", index)
    assert manager.create("u", TOPIC_ID, 0).dir.parent.name == "b"


@pytest.mark.parametrize("known", [(), (None, {"t": TOPIC_ID}.get)])
def test_partition_in_two_directories_is_refused(
    manager_of: MakeManager, tmp_path: Path, known: tuple[Any, ...]
) -> None:
    manager = manager_of("a", "b")
    log = manager.create("t", TOPIC_ID, 0)
    manager.close()
    other = "b" if log.dir.parent.name == "a" else "a"
    shutil.copytree(log.dir, tmp_path / other / "t-0")
    again = manager_of("a", "b", load=False)
    with pytest.raises(LogDirError, match="remove the copy"):
        again.load(*known)


def test_folder_with_the_topics_id_is_served_if_two_exist(
    manager_of: MakeManager, append: Append, tmp_path: Path
) -> None:
    manager = manager_of("a", "b")
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 3)
    manager.close()
    first, second = tmp_path / "a", tmp_path / "b"
    if log.dir.parent == second:
        shutil.move(log.dir, first)
    shutil.copytree(first / "t-0", second / "t-0")
    (second / "t-0" / "partition.metadata").unlink()
    again = manager_of("a", "b", load=False)
    again.load(None, {"t": TOPIC_ID}.get)
    assert again.logs["t", 0].dir == first / "t-0"
    assert [path.name[-6:] for path in second.iterdir() if path.is_dir()] == ["-stray"]


def test_created_parent_folders_are_flushed(tmp_path: Path, clock: Clock) -> None:
    """A power cut must not take a whole log directory because of a folder above it."""

    class Recording(Files):
        def __init__(self) -> None:
            self.folders: list[Path] = []

        def fsync_dir(self, path: Path | str) -> None:
            super().fsync_dir(path)
            self.folders.append(Path(path))

    files = Recording()
    manager = LogManager([tmp_path / "a" / "b" / "c"], defaults=DEFAULTS, clock=clock, files=files)
    assert files.folders == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    manager.close()


def test_directory_named_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(LogDirError, match="twice"):
        LogManager([tmp_path / "a", tmp_path / "b"], defaults=DEFAULTS)


def test_folders_of_other_names_are_left_alone(manager_of: MakeManager, tmp_path: Path) -> None:
    others = ("lost+found", "__cluster_metadata-0", "a-b", "notes", "t-1x", "-0", "t-", "t-\u0661")
    for name in (*others, "a-0", "zz-7", "u-a.b-3"):
        (tmp_path / "a" / name).mkdir(parents=True)
    assert manager_of().logs.keys() == {("a", 0), ("zz", 7), ("u-a.b", 3)}
    assert all((tmp_path / "a" / name).exists() for name in others)


def test_deleted_partition_is_renamed_and_removed_later(
    manager_of: MakeManager, clock: Clock, tmp_path: Path, append: Append
) -> None:
    manager = manager_of()
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 2)
    region = log.read(0, 1000, max_offset=2, min_one_batch=True)
    manager.delete("t", 0)
    (folder,) = (path for path in (tmp_path / "a").iterdir() if path.is_dir())
    assert folder.name.startswith("t-0.")
    assert folder.name.endswith("-delete")
    assert region is not None
    assert len(region.read()) == region.size_bytes
    with pytest.raises(LogError) as caught:
        append(log)
    assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.create("t", b"another topic id", 0).log_end_offset == 0
    run_all(manager.maintain(clock.now_ms + 59_999))
    assert folder.exists()
    run_all(manager.maintain(clock.now_ms + 60_000))
    assert not folder.exists()


def test_interrupted_deletion_continues_at_start(
    manager_of: MakeManager, clock: Clock, tmp_path: Path
) -> None:
    manager = manager_of()
    manager.create("t" * 249, TOPIC_ID, 0)
    manager.delete("t" * 249, 0)
    kill(manager)
    again = manager_of()
    assert again.logs == {}
    run_all(again.maintain(clock.now_ms + 59_999))
    assert [path for path in (tmp_path / "a").iterdir() if path.is_dir()]
    run_all(again.maintain(clock.now_ms + 60_000))
    assert not [path for path in (tmp_path / "a").iterdir() if path.is_dir()]


class TestUpkeep:
    def test_maintenance_writes_checkpoints_at_their_intervals(
        self, manager_of: MakeManager, clock: Clock, append: Append, tmp_path: Path
    ) -> None:
        manager = manager_of()
        log = manager.create("t", TOPIC_ID, 0)
        append(log, 7)
        log.flush()
        run_all(manager.maintain(clock.now_ms + 4_999))
        assert not list((tmp_path / "a").glob("*-checkpoint"))
        run_all(manager.maintain(clock.now_ms + 5_000, lambda log: 6))
        assert (tmp_path / "a" / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 6\n"
        run_all(manager.maintain(clock.now_ms + 60_000))
        assert (tmp_path / "a" / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 7\n"
        assert (tmp_path / "a" / "log-start-offset-checkpoint").read_text() == "0\n0\n"

    def test_maintenance_removes_expired_segments(
        self, manager_of: MakeManager, clock: Clock, append: Append
    ) -> None:
        manager = manager_of()
        log = manager.create("t", TOPIC_ID, 0, log_config(retention_ms=1000))
        append(log, 7)
        run_all(manager.maintain(clock.now_ms + 299_999))
        assert log.log_start_offset == 0
        run_all(manager.maintain(clock.now_ms + 300_000))
        assert (log.log_start_offset, len(log.storage.removals)) == (7, 1)
        paths = log.storage.removals[0].paths
        run_all(manager.maintain(clock.now_ms + 360_000))
        assert log.storage.removals == []
        assert not any(path.exists() for path in paths)

    def test_due_files_are_removed_without_other_changes(
        self, manager_of: MakeManager, clock: Clock, append: Append
    ) -> None:
        manager = manager_of()
        log = manager.create("t", TOPIC_ID, 0, log_config(file_delete_delay_ms=9_000))
        append(log, 7)
        log.roll(clock.now_ms)
        log.flush()
        delete_records(log, 7, 7)
        assert delete_expired_segments(log, clock.now_ms, 7) == 1
        for waited_ms in (0, 1, 2, 8_999):
            run_all(manager.maintain(clock.now_ms + waited_ms))
            assert len(list(log.dir.glob("*.deleted"))) >= 3
        run_all(manager.maintain(clock.now_ms + 9_000))
        assert not list(log.dir.glob("*.deleted"))

    def test_maintenance_flushes_by_flush_ms(
        self, manager_of: MakeManager, clock: Clock, append: Append
    ) -> None:
        manager = manager_of()
        log = manager.create("t", TOPIC_ID, 0, log_config(flush_ms=100))
        append(log, 7)
        run_all(manager.maintain(clock.now_ms + 99))
        assert log.recovery_point == 0
        jobs = manager.maintain(clock.now_ms + 100)
        assert log.recovery_point == 0
        assert manager.maintain(clock.now_ms + 100) == [], "one flush of a log at a time"
        append(log, 1)
        run_all(jobs)
        assert log.recovery_point == 7, "the later append is not durable"
        run_all(manager.maintain(clock.now_ms + 200))
        assert log.recovery_point == 8

    def test_log_deleted_during_its_flush_is_no_disk_failure(
        self, manager_of: MakeManager, clock: Clock, append: Append
    ) -> None:
        manager = manager_of()
        log = manager.create("t", TOPIC_ID, 0, log_config(flush_ms=100))
        append(log)
        (job,) = [job for job in manager.maintain(clock.now_ms + 100) if "flush" in job.what]
        manager.delete("t", 0)
        run_all([job])
        assert not manager.offline_dirs
        manager.create("t", TOPIC_ID, 0, DEFAULTS)

    def test_maintenance_flushes_a_rolled_segment(
        self, manager_of: MakeManager, clock: Clock, append: Append
    ) -> None:
        manager = manager_of()
        log = manager.create("t", TOPIC_ID, 0, log_config(segment_bytes=100))
        append(log)
        assert manager.maintain(clock.now_ms) == []
        append(log)
        assert len(log.segments) == 2
        run_all(manager.maintain(clock.now_ms))
        assert log.recovery_point == 2

    def test_maintenance_expires_idle_producers(
        self, manager_of: MakeManager, clock: Clock, append: Append
    ) -> None:
        manager = manager_of()
        log = manager.create("t", TOPIC_ID, 0)
        append(log, producer_id=1, producer_epoch=0, base_sequence=0)
        run_all(manager.maintain(clock.now_ms + 600_000))
        assert list(log.producers.entries.values())
        run_all(manager.maintain(clock.now_ms + 86_400_000))
        assert not list(log.producers.entries.values())

    def test_maintenance_uses_the_configured_intervals(self, tmp_path: Path, clock: Clock) -> None:
        intervals = Intervals(replica_high_watermark_checkpoint_interval_ms=1)
        manager = LogManager([tmp_path / "a"], defaults=DEFAULTS, clock=clock, intervals=intervals)
        run_all(manager.maintain(clock.now_ms + 1))
        assert (tmp_path / "a" / "replication-offset-checkpoint").exists()
        manager.close()


class TestFailingDisk:
    """One directory's disk fails: its partitions answer KAFKA_STORAGE_ERROR, the others go on."""

    @pytest.fixture
    def disk(self) -> FailingDisk:
        return FailingDisk("/a/")

    @pytest.fixture
    def manager(self, manager_of: MakeManager, disk: FailingDisk) -> LogManager:
        manager = manager_of("a", "b", files=disk)
        for index in range(4):
            manager.create("t", TOPIC_ID, index)
        return manager

    def on(self, manager: LogManager, name: str) -> list[Log]:
        return [log for log in manager.logs.values() if log.dir.parent.name == name]

    @pytest.mark.parametrize("call", ["pwrite", "short write"])
    def test_write_error_takes_the_directory_offline(
        self, manager: LogManager, disk: FailingDisk, append: Append, call: str,
        manager_of: MakeManager,
    ) -> None:  # fmt: skip
        failed, good = self.on(manager, "a"), self.on(manager, "b")
        for log in (*failed, *good):
            append(log, 3)
        disk.calls, disk.broken = (call,), True
        size = failed[0].segments.active.path.stat().st_size
        with pytest.raises(LogError) as caught:
            append(failed[0], 100)
        assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR
        assert failed[0].segments.active.path.stat().st_size == size, (
            "the partly written batch is cut"
        )
        for log in failed:
            with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
                append(log)
            with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
                log.read(0, 100, max_offset=3, min_one_batch=True)
        for log in good:
            assert append(log).first_offset == 3
        assert [path.name for path in manager.offline_dirs] == ["a"]
        assert sorted(manager.logs) == sorted((log.topic, log.partition) for log in good)
        run_all(manager.maintain(NOW_MS + 10**6))
        manager.close()
        again = manager_of("a", "b")
        assert sorted(log.log_end_offset for log in again.logs.values()) == [3, 3, 4, 4]

    def test_failed_directory_is_reported_once(
        self, manager: LogManager, disk: FailingDisk, append: Append
    ) -> None:
        reported: list[tuple[str, int]] = []
        manager.dirs.on_dir_offline = lambda path, error, logs: reported.append(
            (path.name, len(logs))
        )
        disk.calls, disk.broken = ("pwrite",), True
        for log in self.on(manager, "a"):
            with pytest.raises(LogError):
                append(log)
        assert reported == [("a", 2)]

    def test_read_error_takes_the_directory_offline(
        self, manager: LogManager, disk: FailingDisk, append: Append
    ) -> None:
        log = self.on(manager, "a")[0]
        for _ in range(3):
            append(log)
        disk.calls, disk.broken = ("pread",), True
        with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
            log.read(1, 100, max_offset=3, min_one_batch=True)
        assert [path.name for path in manager.offline_dirs] == ["a"]

    def test_fsync_error_takes_the_directory_offline(
        self, manager: LogManager, disk: FailingDisk, append: Append, clock: Clock
    ) -> None:
        log = self.on(manager, "a")[0]
        log.update_config(log_config(flush_ms=1))
        append(log)
        disk.calls, disk.broken = ("fsync",), True
        run_all(manager.maintain(clock.now_ms + 1))
        assert [path.name for path in manager.offline_dirs] == ["a"]
        assert log.recovery_point == 0

    def test_append_that_cannot_be_flushed_is_refused(
        self, manager: LogManager, disk: FailingDisk, append: Append
    ) -> None:
        """`flush.messages` is 1, so the batch would have to be durable."""
        log = self.on(manager, "a")[0]
        log.update_config(log_config(flush_messages=1))
        disk.calls, disk.broken = ("fsync",), True
        with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
            append(log)

    def test_append_that_cannot_roll_the_log_is_refused(
        self, manager: LogManager, disk: FailingDisk, append: Append
    ) -> None:
        log = self.on(manager, "a")[0]
        append(log)
        log.update_config(log_config(segment_bytes=100))
        disk.calls, disk.broken = ("open",), True
        with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
            append(log)
        assert log.log_end_offset == 1

    def test_new_partitions_are_created_in_online_directories(
        self, manager: LogManager, disk: FailingDisk
    ) -> None:
        disk.calls, disk.broken = ("open",), True
        for index in range(10, 14):
            assert manager.create("t", TOPIC_ID, index).dir.parent.name == "b"
        disk.word = "/"
        with pytest.raises(LogError) as caught:
            manager.create("t", TOPIC_ID, 14)
        assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR

    def test_checkpoint_error_takes_the_directory_offline(
        self, manager: LogManager, disk: FailingDisk
    ) -> None:
        disk.calls, disk.broken = ("rename",), True
        run_all(manager.maintain(NOW_MS + 60_000))
        assert [path.name for path in manager.offline_dirs] == ["a"]

    def test_clean_stop_with_a_failing_disk_closes_the_others(
        self, manager: LogManager, disk: FailingDisk, append: Append, tmp_path: Path
    ) -> None:
        for log in list(manager.logs.values()):
            append(log)
        disk.calls, disk.broken = ("fsync",), True
        manager.close()
        assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
        assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


def test_directory_that_cannot_be_created_is_offline(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_text("")
    manager = LogManager(
        [tmp_path / "file" / "x", tmp_path / "good"], defaults=DEFAULTS, clock=clock
    )
    assert list(manager.offline_dirs) == [tmp_path / "file" / "x"]
    manager.close()
    with pytest.raises(LogDirError, match=r"none of the log\.dirs can be used"):
        LogManager([tmp_path / "file" / "x"], defaults=DEFAULTS, clock=clock)
