"""What no snapshot can be taken of, and what is left where it cannot be written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.cluster.stores.local import LocalStore
from kwire.log import LogManager
from kwire.testing.hooks.control.clock import ControlledClock
from kwire.testing.hooks.control.forks import ForkPorts, Forks
from kwire.testing.hooks.control.snapshots import Snapshotting, held_settings
from kwire.testing.hooks.snapshots.kept import SnapshotError
from tests.log.configs import DEFAULTS


@pytest.fixture
def snapshotting(tmp_path: Path) -> Snapshotting:
    """Of a broker with one partition, as far as a snapshot asks it."""
    data = tmp_path / "data"
    logs = LogManager([data], defaults=DEFAULTS)
    logs.identify(1, "cluster")
    logs.load()
    logs.create("t", b"0123456789abcdef", 0)
    broker = SimpleNamespace(
        node=SimpleNamespace(store=LocalStore(data / "kwire-metadata.log")),
        logs=logs,
        image=SimpleNamespace(cluster_id="cluster"),
        config=SimpleNamespace(log_dirs=(str(data),), explicit={"log.dirs": "x", "node.id": "1"}),
        hosted=SimpleNamespace(high_watermark_of=lambda log: log.log_end_offset),
        coordinators=SimpleNamespace(write_deferred=lambda: None),
        now_ms=lambda: 1_700_000_000_000,
    )
    found = Snapshotting(ControlledClock())
    found.begin(cast(Broker, broker), trio.Event())
    return found


def test_snapshot_before_the_broker_has_started_is_refused() -> None:
    with pytest.raises(SnapshotError, match="the broker has not started yet"):
        Snapshotting(ControlledClock()).take("a")


def test_snapshot_of_a_cluster_broker_is_refused(snapshotting: Snapshotting) -> None:
    snapshotting.broker.node.store = cast(LocalStore, object())
    with pytest.raises(SnapshotError, match="one broker of a cluster is not possible"):
        snapshotting.take("a")


async def test_fork_of_a_cluster_broker_is_refused(snapshotting: Snapshotting) -> None:
    snapshotting.broker.node.store = cast(LocalStore, object())
    with pytest.raises(SnapshotError, match="one broker of a cluster is not possible"):
        await Forks(()).start(snapshotting, None, None, ForkPorts())


def test_snapshot_on_apache_kafkas_data_is_refused(snapshotting: Snapshotting) -> None:
    cast(SimpleNamespace, snapshotting.broker.node.store).ahead = object()
    with pytest.raises(SnapshotError, match="runs on Apache Kafka's data"):
        snapshotting.take("a")


def test_snapshot_with_a_failed_log_directory_is_refused(snapshotting: Snapshotting) -> None:
    snapshotting.broker.logs.dirs.offline_dirs[Path("/lost")] = OSError("gone")
    with pytest.raises(SnapshotError, match="a log directory has failed: /lost"):
        snapshotting.take("a")


def test_snapshot_folder_must_be_an_absolute_path(
    snapshotting: Snapshotting, tmp_path: Path
) -> None:
    with pytest.raises(SnapshotError, match="must be an absolute path"):
        snapshotting.take("a", "somewhere")
    told = snapshotting.take("a", str(tmp_path / "kept"))
    assert told["path"] == str(tmp_path / "kept" / "a")
    assert snapshotting.to_json()["snapshots"] == []
    assert snapshotting.to_json(str(tmp_path / "kept"))["snapshots"] == [told]


def test_failed_snapshot_leaves_no_folder(
    snapshotting: Snapshotting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(snapshotting.broker.logs.files, "write", refuse)
        with pytest.raises(
            SnapshotError, match=r"the snapshot cannot be written: .* No space left"
        ):
            snapshotting.take("a")
    assert list((tmp_path / "data-snapshots").iterdir()) == []
    assert snapshotting.take("a")["partitions"] == 1


def test_second_restore_request_is_refused(snapshotting: Snapshotting, tmp_path: Path) -> None:
    snapshotting.take("a")

    async def restore() -> None:
        with pytest.raises(SnapshotError, match="there is no snapshot 'b'"):
            await snapshotting.restore("b")
        await snapshotting.restore("a")
        assert snapshotting.restoring is not None
        (laid,) = snapshotting.restoring.laid
        assert (laid / "t-0").is_dir()
        with pytest.raises(SnapshotError, match="the broker is being restored already"):
            await snapshotting.restore("a")

    trio.run(restore)


def test_held_settings_leave_out_listeners_and_log_directories() -> None:
    given = {"listeners": "a", "log.dirs": "b", "log.dir": "c", "num.partitions": "3"}
    assert held_settings(given) == {"num.partitions": "3"}
