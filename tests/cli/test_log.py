"""`kwire log`: dumping and checking files, without a broker."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build
from kwire.codecs.messages.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.codecs.messages.coordinator.share_update import (
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from kwire.coordinators.share.records import ShareStateSnapshot, ShareStateUpdate
from kwire.groups.offset_record import CommittedOffset, OffsetCommit, OffsetKey
from tests.commands.forked import run_kwire
from tests.storage.data_folder.folders import log_dir

GOLDEN = Path(__file__).parents[1] / "log" / "data" / "apache-4.3.1"
FIRST = "00000000000000000000.log"


def kwire_log(*arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = run_kwire("log", *map(str, arguments))
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "data" / "golden-0"))


def test_verify_of_a_sound_directory_finds_no_problems(folder: Path) -> None:
    for path in (folder.parent, folder, folder / FIRST):
        done = kwire_log("verify", path)
        assert done.stdout == ""
        assert "0 problems" in done.stderr
    assert "3 segments with 33 records" in kwire_log("verify", folder).stderr


def test_verify_prints_a_problem_and_exits_with_1(folder: Path) -> None:
    (folder / FIRST).write_bytes((folder / FIRST).read_bytes()[:-1])
    done = kwire_log("verify", folder, status=1)
    assert f"{folder / FIRST}: position " in done.stdout


def test_verify_of_another_directory_is_a_usage_error(tmp_path: Path) -> None:
    assert "no partitions" in kwire_log("verify", tmp_path, status=2).stderr
    assert "no file of a log directory" in kwire_log("dump", tmp_path, status=2).stderr
    (tmp_path / "dbus-1").mkdir()  # as /etc has it: the name of a partition's folder, and empty
    (tmp_path / "kwire-metadata.log").touch()
    assert "no partitions" in kwire_log("verify", tmp_path / "dbus-1", status=2).stderr
    metadata = kwire_log("verify", tmp_path / "kwire-metadata.log", status=2)
    assert "neither a folder nor a segment" in metadata.stderr


def test_verify_and_dump_of_a_clusters_folder_read_the_logs_of_all_brokers(tmp_path: Path) -> None:
    for broker in ("broker-1", "broker-2"):
        log_dir(tmp_path / broker, int(broker[-1]))
        shutil.copytree(GOLDEN, tmp_path / broker / "golden-0")
    (tmp_path / "kwire-metadata.log").touch()
    done = kwire_log("verify", tmp_path)
    assert done.stdout == ""
    assert "6 segments with 66 records" in done.stderr
    dumped = kwire_log("dump", tmp_path).stdout
    assert f"{tmp_path / 'broker-2' / 'meta.properties'}:\n  version=1 node_id=2" in dumped

    # An earlier version served the folder as one broker's, too, and wrote into that of a member as
    # if it were partition 1 of a topic `broker`.
    log_dir(tmp_path, 1)
    (tmp_path / "broker-1" / FIRST).touch()
    done = kwire_log("verify", tmp_path)
    assert done.stdout == ""
    assert "6 segments with 66 records" in done.stderr


def test_dump_of_a_folder_prints_lines_or_json(folder: Path) -> None:
    text = kwire_log("dump", folder, "--records").stdout
    assert "batch=0-" in text
    assert "value=plain 0" in text
    assert "epoch=0 start_offset=0" in text
    lines = kwire_log("dump", folder / FIRST, "--json").stdout.splitlines()
    batches = [json.loads(line) for line in lines]
    assert {batch["codec"] for batch in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_dump_decodes_records_of_internal_topics(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-7"
    folder.mkdir()
    commit = OffsetCommit(OffsetKey("readers", "t", 3), CommittedOffset(42))
    key, value = commit.encode()
    (folder / FIRST).write_bytes(build([Record(0, 0, key, value)]))
    lines = kwire_log("dump", folder / FIRST, "--records", "--json").stdout.splitlines()
    record = json.loads(lines[1])
    assert record["type"] == 1
    assert record["key"] == {"group": "readers", "topic": "t", "partition": 3}
    assert record["value"]["offset"] == 42


def test_dump_decodes_share_group_state(tmp_path: Path) -> None:
    """A snapshot, what changed since, and the end of it, by the same group and partition."""
    folder = tmp_path / "__share_group_state-7"
    folder.mkdir()
    batches = [StateBatch(0, 4, 2, 1)]
    records: list[ShareStateSnapshot | ShareStateUpdate] = [
        ShareStateSnapshot(
            ShareSnapshotKey("s", b"i" * 16, 3), ShareSnapshotValue(1, 2, 0, 0, 7, 8)
        ),
        ShareStateUpdate(ShareUpdateKey("s", b"i" * 16, 3), ShareUpdateValue(1, 0, 5, 4, batches)),
        ShareStateSnapshot(ShareSnapshotKey("s", b"i" * 16, 3), None),
    ]
    written = [Record(0, 0, *record.encode()) for record in records]
    (folder / FIRST).write_bytes(build(written))
    lines = kwire_log("dump", folder / FIRST, "--records", "--json").stdout.splitlines()
    told = [json.loads(line) for line in lines[1:]]
    assert [record["type"] for record in told] == [0, 1, 0]
    key = {"group_id": "s", "topic_id": b"i".hex() * 16, "partition": 3}
    assert all(record["key"] == key for record in told)
    assert told[0]["value"]["snapshot_epoch"] == 1
    assert told[1]["value"]["start_offset"] == 5
    batch = {"first_offset": 0, "last_offset": 4, "delivery_state": 2, "delivery_count": 1}
    assert told[1]["value"]["state_batches"] == [batch]
    assert told[2]["value"] is None


def test_dump_reports_an_unreadable_file_and_dumps_the_others(folder: Path) -> None:
    (folder / f"{0:020d}.snapshot").write_bytes(b"x")
    done = kwire_log("dump", folder, status=1)
    assert "cut short" in done.stderr
    assert "topic_id=" in done.stdout
