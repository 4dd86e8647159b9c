"""Translation of group offsets by runs, compared with the place of each record."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer

from kwire.pipeline import Kafka, Mirror, Mirrored, Rename, Topics
from kwire.pipeline.cluster import ClusterAdmin
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.mirroring.groups import GroupSync
from kwire.pipeline.mirroring.offset_map import MirrorOffsetMap, PartitionMap
from kwire.pipeline.mirroring.topics import TopicSync
from kwire.pipeline.positions import MapRecord, Position, Run, position_of
from kwire.pipeline.rows import Reports
from tests.pipeline.archiving.archives import delete_records
from tests.pipeline.mirroring import mirrors


def mirrored(rng: random.Random) -> tuple[PartitionMap, dict[int, int], int]:
    """A map, its runs, and the end of the source; both sides have gaps."""
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
def test_translated_offset_is_that_of_the_first_unread_record(seed: int) -> None:
    runs, places, end = mirrored(random.Random(seed))
    behind = max(places.values()) + 1
    for offset in range(end + 1):
        unread = [target for source, target in places.items() if source >= offset]
        assert runs.translate(offset, end) == min(unread, default=behind), offset


def test_offset_ahead_of_the_mirror_is_not_translated() -> None:
    runs = PartitionMap()
    assert runs.translate(0, 0) == 0
    assert runs.translate(1, 0) is None
    runs.add(Run(0, 0, 5))
    assert runs.translate(5, 0) == 5
    assert runs.translate(6, 5) is None  # a record may lie at 5
    assert runs.translate(6, 6) == 5  # a marker does


def test_map_record_and_position_are_decoded_as_encoded() -> None:
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


def test_rename_replaces_topic_and_source_as_in_mirrormaker() -> None:
    assert Rename()("orders") == "orders"
    assert Rename("{source}.{topic}", "eu")("orders") == "eu.orders"
    assert Rename("pre-{topic}-post")("{source}") == "pre-{source}-post"
    for wrong in ("orders", "{topic}{topic}", "{topic}{other}", "{{topic}"):
        with pytest.raises(PipelineError, match="is no name for topics"):
            Rename(wrong)


def test_forget_drops_whole_runs_except_the_last() -> None:
    runs = PartitionMap()
    for source in (0, 4, 10):
        runs.add(Run(source, source + 1, 3))
    runs.forget(6)
    assert (runs.sources, runs.targets, runs.records) == ([4, 10], [5, 11], [3, 3])
    assert (runs.translate(0, 13), runs.translate(6, 13)) == (5, 7)
    runs.forget(100)
    assert (runs.sources, runs.position) == ([10], 13)
    PartitionMap().forget(5)


class MapTopic:
    """The map of offsets of a mirror from a topic to another one of the same cluster."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        rename = Rename("copy-{topic}")
        kafka = Kafka(bootstrap)
        self.options = Mirror(
            kafka, kafka, Topics((topic,)), name=topic, rename=rename, groups=f"{topic}.*"
        )
        self.cluster = ClusterAdmin(kafka)
        self.place = rename(topic), 0
        self.new().create(None)

    def new(self) -> MirrorOffsetMap:
        return MirrorOffsetMap(self.cluster, self.options.map_topic)

    def write(self, *runs: Run, origin: str = "it") -> None:
        """Write a record for each run."""
        producer = Producer({"bootstrap.servers": self.options.target.bootstrap})
        for run in runs:
            key, value = MapRecord(*self.place, origin, "target", (run,)).encode()
            producer.produce(self.options.map_topic, value, key, 0)
        assert producer.flush(mirrors.TIMEOUT_S) == 0

    def sources(self) -> list[int]:
        """The first offsets of the runs, found by reading the whole topic."""
        found = self.new()
        found.read()
        return found.partitions[self.place].sources

    def sync_groups(self) -> None:
        """Sync the groups, as the mirror does at its start."""
        topics = TopicSync(self.options, self.cluster, self.cluster, Mirrored())
        topics.select(lambda name: False)
        GroupSync(self.options, topics, self.new()).sync({}, {})


TWO_BY_TWO = [Run(source, source, 2) for source in range(0, 10, 2)]


@pytest.mark.slow
def test_pruned_records_are_missing_for_new_readers(bootstrap: str, unique: str) -> None:
    topic = MapTopic(bootstrap, unique)
    topic.write(*TWO_BY_TWO)
    read = topic.new()
    read.read()
    assert read.prune({topic.place: 5, ("other", 0): 9}) == 2
    assert read.partitions[topic.place].sources == topic.sources() == [4, 6, 8]
    assert read.prune({topic.place: 5}) == 0
    read.read()  # its own removals
    assert read.prune({topic.place: 1000}) == 2
    assert read.partitions[topic.place].sources == topic.sources() == [8]


@pytest.mark.slow
def test_prune_of_a_recreated_topic_keeps_rewritten_keys(bootstrap: str, unique: str) -> None:
    topic = MapTopic(bootstrap, unique)
    topic.write(*TWO_BY_TWO)
    topic.write(Run(0, 0, 3), Run(4, 4, 3), Run(7, 7, 3), origin="made anew")
    read = topic.new()
    read.read()
    assert read.prune({topic.place: 7}) == 3  # 2 of before; 0 and 4 of now
    assert topic.sources() == [7]


@pytest.mark.slow
def test_map_is_pruned_up_to_the_source_start_or_the_first_group(
    bootstrap: str, unique: str
) -> None:
    topic = MapTopic(bootstrap, unique)
    mirrors.create(bootstrap, unique)
    mirrors.create(bootstrap, f"copy-{unique}")
    mirrors.write(bootstrap, unique, mirrors.numbered(10))
    topic.write(*TWO_BY_TWO)
    topic.sync_groups()
    assert topic.sources() == [0, 2, 4, 6, 8]
    delete_records(bootstrap, unique, {0: 6})
    mirrors.commit(bootstrap, f"{unique}-group", unique, 3)
    topic.sync_groups()
    assert topic.sources() == [2, 4, 6, 8]
    mirrors.commit(bootstrap, f"{unique}-group", unique, 7)
    topic.sync_groups()
    assert topic.sources() == [6, 8]
