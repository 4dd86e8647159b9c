"""The log that `kwire.conformance.bench.compaction` has compacted is what it says."""

from __future__ import annotations

from pathlib import Path

from kwire.codecs.batches import HEADER_SIZE, read_header, records
from kwire.conformance.bench.compaction import CHECKPOINT, RECORD_BYTES, Bench, batches


def test_records_are_of_100_bytes_and_one_in_ten_keys_is_distinct() -> None:
    made = [bytes(batch) for batch in batches(2_800_000)]
    found = [record for batch in made for record in records(batch)]
    assert len(found) * RECORD_BYTES == 2_800_000
    size = sum(len(batch) - HEADER_SIZE for batch in made) / len(found)
    assert abs(size - RECORD_BYTES) < 2
    assert 0.95 < len({record.key for record in found}) / (len(found) / 10) <= 1
    assert made == [bytes(batch) for batch in batches(2_800_000)], "the same for every broker"
    assert read_header(made[0]).base_offset == 0


def test_the_checkpoint_is_read(tmp_path: Path) -> None:
    bench = Bench("any", "127.0.0.1:1", tmp_path)
    assert bench.cleaned_to("t") == 0
    (tmp_path / CHECKPOINT).write_text("0\n2\na-b 0 17\nt 0 42\n")
    assert bench.cleaned_to("t") == 42
    assert bench.cleaned_to("other") == 0
