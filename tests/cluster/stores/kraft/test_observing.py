"""The observer, driven by scripts: what it asks, and what it makes of the answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.stores.kraft.observing import (
    TOPIC_ID,
    Address,
    Ask,
    Leader,
    Limits,
    Observer,
    ObserverIdentity,
    Wait,
)
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.messages.fetch_snapshot import FetchSnapshotRequest
from tests.cluster.stores.kraft.observer_stage import BOOTSTRAP, FakeLog, Stage
from tests.conftest import CheckScript

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_observer_does_what_the_script_says(path: Path, check_script: CheckScript) -> None:
    # A restarted broker knows from `quorum-state` who the leader was.
    leader = Leader(100, 3, None) if path.stem.startswith("restart") else None
    check_script(path, Stage(leader).run)


def test_fetch_has_the_fields_of_an_apache_kafka_broker() -> None:
    observer = Observer(ObserverIdentity("c", 1, b"d" * 16), BOOTSTRAP, FakeLog())
    step = observer.step(0)
    assert isinstance(step, Ask)
    assert isinstance(step.request, FetchRequest)
    sent = FetchRequest.decode(step.request.encode(18), 18)
    partition = sent.topics[0].partitions[0]
    assert (sent.cluster_id, sent.max_wait_ms, sent.min_bytes, sent.max_bytes) == (
        "c",
        500,
        0,
        1_048_576,
    )
    assert (sent.session_id, sent.session_epoch, sent.isolation_level) == (0, -1, 0)
    replica = sent.replica_state
    assert replica is not None
    assert (replica.replica_id, replica.replica_epoch) == (1, -1)
    assert sent.topics[0].topic_id == TOPIC_ID
    assert (partition.partition, partition.partition_max_bytes) == (0, 0)
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (0, 0)
    assert (partition.current_leader_epoch, partition.log_start_offset) == (0, -1)
    assert (partition.replica_directory_id, partition.high_watermark) == (b"d" * 16, -1)


def test_fetch_snapshot_names_the_snapshot_and_the_replica() -> None:
    stage = Stage()
    for line in ("next", "leader 100 1 c:3", "next", "snapshot 50 1", "next"):
        stage.run(line)
    assert stage.asked is not None
    assert isinstance(stage.asked.request, FetchSnapshotRequest)
    sent = FetchSnapshotRequest.decode(stage.asked.request.encode(1), 1)
    partition = sent.topics[0].partitions[0]
    assert (sent.cluster_id, sent.replica_id, sent.max_bytes) == ("cluster", 2, 1_048_576)
    assert sent.topics[0].name == "__cluster_metadata"
    assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == (50, 1)
    assert (partition.current_leader_epoch, partition.position) == (1, 0)
    assert partition.replica_directory_id == b"d" * 16


@pytest.mark.parametrize(
    ("failures", "wait_ms"), [(1, 20), (2, 40), (3, 80), (6, 640), (7, 1000), (200, 1000)]
)
def test_waits_grow_to_the_limit_and_no_further(failures: int, wait_ms: int) -> None:
    limits = Limits(backoff_ms=20, backoff_max_ms=1000)
    observer = Observer(ObserverIdentity("c", 1, b"d" * 16), BOOTSTRAP, FakeLog(), limits)
    now_ms = waited_ms = 0
    for _ in range(failures):
        step = observer.step(now_ms)
        assert isinstance(step, Ask)
        observer.failed(step, "no answer", now_ms)
        pause = observer.step(now_ms)
        assert isinstance(pause, Wait)
        waited_ms, now_ms = pause.until_ms - now_ms, pause.until_ms
    assert waited_ms == wait_ms


def test_all_addresses_are_asked_while_the_leader_is_away() -> None:
    stage = Stage()
    for line in ("next", "leader 100 1 c:3", "voters c:3 d:4", "next", "silent"):
        stage.run(line)
    asked = set()
    for _ in range(4):
        stage.now_ms += 5000
        stage.run("next")
        assert stage.asked is not None
        asked.add(stage.asked.address)
        stage.run("silent")
    assert asked == {*BOOTSTRAP, Address("c", 3), Address("d", 4)}


def test_observer_needs_an_address() -> None:
    with pytest.raises(ValueError, match="no bootstrap servers"):
        Observer(ObserverIdentity("c", 1, b"d" * 16), [], FakeLog())
