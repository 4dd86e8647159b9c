"""Where a group goes on: by the runs of a partition, against each record's own place."""

from __future__ import annotations

import random

import pytest

from kwire.pipeline import Rename
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.mirroring.offset_map import PartitionMap
from kwire.pipeline.positions import MapRecord, Position, Run, position_of
from kwire.pipeline.rows import Reports


def mirrored(rng: random.Random) -> tuple[PartitionMap, dict[int, int], int]:
    """A map, what it is the map of, and the source's end: both sides have gaps."""
    places: dict[int, int] = {}
    runs = PartitionMap()
    source, target = rng.randrange(5), rng.randrange(5)
    for _ in range(rng.randrange(1, 6)):
        records = rng.randrange(1, 6)
        runs.add(Run(source, target, records))
        places |= {source + n: target + n for n in range(records)}
        source += records + rng.randrange(3)
        target += records + rng.randrange(3)
    return runs, places, source


@pytest.mark.parametrize("seed", range(50))
def test_a_group_goes_on_with_the_first_record_that_it_has_not_read(seed: int) -> None:
    runs, places, end = mirrored(random.Random(seed))
    behind = max(places.values()) + 1
    for offset in range(end + 1):
        unread = [target for source, target in places.items() if source >= offset]
        assert runs.translate(offset, end) == min(unread, default=behind), offset


def test_a_group_that_is_ahead_of_the_mirror_waits() -> None:
    runs = PartitionMap()
    assert runs.translate(0, 0) == 0
    assert runs.translate(1, 0) is None
    runs.add(Run(0, 0, 5))
    assert runs.translate(5, 0) == 5
    assert runs.translate(6, 5) is None  # a record may lie at 5
    assert runs.translate(6, 6) == 5  # a marker does


def test_a_transactions_record_is_read_as_it_was_written() -> None:
    record = MapRecord("топик", 3, "cluster/id", "target-id", (Run(1, 2, 3), Run(9, 5, 1)))
    assert MapRecord.decode(*record.encode()) == record
    position = Position("cluster/id", "target-id", ("a", "cluster"), 12)
    assert position_of(position.metadata()) == position


@pytest.mark.parametrize("metadata", [None, "", "somebody's", "[]", "{}", '{"origin": 1}', "7"])
def test_metadata_of_others_is_no_position_of_ours(metadata: str | None) -> None:
    assert position_of(metadata).origin.startswith("unknown")


def test_runs_break_where_either_side_has_a_gap() -> None:
    reports = Reports(every=True)
    reports.sources = [4, 5, 7, 8, 9]
    reports.targets = {4: 0, 5: 1, 7: 2, 8: 4, 9: 5}
    assert reports.runs() == [Run(4, 0, 2), Run(7, 2, 1), Run(8, 4, 2)]
    quick = Reports(every=False)
    quick.sources, quick.targets = [4, 5, 7], {4: 10, 7: 12}
    assert quick.complete
    assert quick.runs() == [Run(4, 10, 2), Run(7, 12, 1)]
    quick.targets[7] = 13  # somebody else wrote between them
    assert not quick.complete


def test_a_rename_is_mirrormakers() -> None:
    assert Rename()("orders") == "orders"
    assert Rename("{source}.{topic}", "eu")("orders") == "eu.orders"
    assert Rename("pre-{topic}-post")("{source}") == "pre-{source}-post"
    for wrong in ("orders", "{topic}{topic}", "{topic}{other}", "{{topic}"):
        with pytest.raises(PipelineError, match="is no name for topics"):
            Rename(wrong)
