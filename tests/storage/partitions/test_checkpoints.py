"""Checkpoints that are written before the upkeep of a broker begins."""

from __future__ import annotations

from pathlib import Path

from kwire.codecs.batches import Record, build
from kwire.log import LogManager
from kwire.storage.partitions.flushing import Flusher
from kwire.storage.partitions.hosted import HostedPartitions
from tests.log.configs import DEFAULTS

NOW_MS = 1_800_000_000_000


def test_checkpoint_of_a_topic_created_anew_keeps_the_high_watermarks_of_others(
    tmp_path: Path,
) -> None:
    """A log end would count as committed after a kill, though no other replica has the records."""
    path = tmp_path / "a"
    path.mkdir()
    lines = "0\n1\nu 0 7\n"
    (path / "replication-offset-checkpoint").write_text(lines)
    logs = LogManager([path], defaults=DEFAULTS)
    logs.load()
    hosted = HostedPartitions(1, logs, Flusher(lambda: NOW_MS), lambda _topic: DEFAULTS)
    partition = hosted.open("t", b"t" * 16, 0, has_followers=True)
    batch = build([Record(0, NOW_MS, None, b"x")])
    partition.log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert (partition.high_watermark, partition.log.log_end_offset) == (0, 1)
    hosted.open("u", b"u" * 16, 0, has_followers=True)
    assert "t 0 0\n" in (path / "replication-offset-checkpoint").read_text()
    logs.close(hosted.high_watermark_of)
