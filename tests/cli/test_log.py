"""`kwire log`: dumping and checking files, without a broker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build
from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from kwire.groups.records import OffsetCommit

GOLDEN = Path(__file__).parents[1] / "log" / "data" / "apache-4.3.1"
FIRST = "00000000000000000000.log"


def kwire_log(*arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kwire.cli", "log", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "data" / "golden-0"))


def test_a_sound_directory_has_no_problems(folder: Path) -> None:
    for path in (folder.parent, folder, folder / FIRST):
        done = kwire_log("verify", path)
        assert done.stdout == ""
        assert "0 problems" in done.stderr
    assert "3 segments with 33 records" in kwire_log("verify", folder).stderr


def test_a_fault_is_told_and_is_the_exit_status(folder: Path) -> None:
    (folder / FIRST).write_bytes((folder / FIRST).read_bytes()[:-1])
    done = kwire_log("verify", folder, status=1)
    assert f"{folder / FIRST}: position " in done.stdout


def test_what_is_no_log_directory_is_a_usage_error(tmp_path: Path) -> None:
    assert "no partitions" in kwire_log("verify", tmp_path, status=2).stderr
    assert "no file of a log directory" in kwire_log("dump", tmp_path, status=2).stderr


def test_a_folder_is_dumped_for_people_and_programs(folder: Path) -> None:
    text = kwire_log("dump", folder, "--records").stdout
    assert "batch=0-" in text
    assert "value=plain 0" in text
    assert "epoch=0 start_offset=0" in text
    lines = kwire_log("dump", folder / FIRST, "--json").stdout.splitlines()
    batches = [json.loads(line) for line in lines]
    assert {batch["codec"] for batch in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_records_of_internal_topics_are_decoded(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-7"
    folder.mkdir()
    commit = OffsetCommit(OffsetCommitKey("readers", "t", 3), OffsetCommitValue(offset=42))
    key, value = commit.encode()
    (folder / FIRST).write_bytes(build([Record(0, 0, key, value)]))
    lines = kwire_log("dump", folder / FIRST, "--records", "--json").stdout.splitlines()
    record = json.loads(lines[1])
    assert record["key"] == {"group": "readers", "topic": "t", "partition": 3}
    assert record["value"]["offset"] == 42


def test_a_file_that_cannot_be_read_is_said_and_the_others_are_dumped(folder: Path) -> None:
    (folder / f"{0:020d}.snapshot").write_bytes(b"x")
    done = kwire_log("dump", folder, status=1)
    assert "cut short" in done.stderr
    assert "topic_id=" in done.stdout
