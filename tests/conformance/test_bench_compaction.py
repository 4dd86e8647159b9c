"""Tests the log and the checkpoint of the compaction benchmark."""

from __future__ import annotations

from pathlib import Path

from kwire.codecs.batches import HEADER_SIZE, read_header, records
from kwire.conformance.bench.compaction import CHECKPOINT, RECORD_BYTES, CompactionBench, batches


def test_log_has_records_of_100_bytes_with_one_distinct_key_in_ten() -> None:
    log = [bytes(batch) for batch in batches(2_800_000)]
    log_records = [record for batch in log for record in records(batch)]
    assert len(log_records) * RECORD_BYTES == 2_800_000
    size = sum(len(batch) - HEADER_SIZE for batch in log) / len(log_records)
    assert abs(size - RECORD_BYTES) < 2
    assert 0.95 < len({record.key for record in log_records}) / (len(log_records) / 10) <= 1
    assert log == [bytes(batch) for batch in batches(2_800_000)], "the same for every broker"
    assert read_header(log[0]).base_offset == 0


def test_cleaned_offset_is_read_from_the_checkpoint(tmp_path: Path) -> None:
    bench = CompactionBench("any", "127.0.0.1:1", tmp_path)
    assert bench.cleaned_to("t") == 0
    (tmp_path / CHECKPOINT).write_text("0\n2\na-b 0 17\nt 0 42\n")
    assert bench.cleaned_to("t") == 42
    assert bench.cleaned_to("other") == 0
