"""The driver of the observer, with real sockets and files and a controller of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import trio

from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.kraft import records
from kwire.cluster.stores.kraft.controllers import ControllerPeers
from kwire.cluster.stores.kraft.link import MetadataLink, Quorum, bootstrap_of
from kwire.cluster.stores.kraft.metadata_log import MetadataLog, Retention
from kwire.cluster.stores.kraft.observing import Address, Limits, ObserverIdentity, SnapshotId
from kwire.cluster.stores.kraft.records import encode
from kwire.cluster.stores.kraft.replaying import MetadataReplay
from kwire.codecs.batches import Record, build
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatRequest
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.log.directory.files import Files
from kwire.settings import BrokerConfig
from tests.cluster.stores.kraft.fake_controller import Controller, serving
from tests.cluster.stores.kraft.recorded import CLUSTER, recording
from tests.log.configs import DEFAULTS

RECORDED = recording("from-4.4")
BATCHES = list(records.decode_batches(RECORDED.log))
END = BATCHES[-1].last_offset + 1
NOW_MS = 1_800_000_000_000
DEADLINE_S = 120
SETTINGS = {"controller.listener.names": "CONTROLLER", "log.dirs": "/unused"}
LIMITS = Limits(request_timeout_ms=60_000)


def replayed_to(end_offset: int) -> MetadataReplay:
    replay = MetadataReplay(CLUSTER)
    for batch in BATCHES:
        if batch.base_offset < end_offset:
            replay.add(batch)
    return replay


def comparable(image: ClusterImage) -> ClusterImage:
    """The image without the epoch of its features, which a snapshot does not have."""
    return replace(image, features=replace(image.features, epoch=0))


@dataclass
class Follower:
    """Follows a link's images as a broker does: by their deltas alone."""

    link: MetadataLink
    image: ClusterImage
    seen: list[int] = field(default_factory=list)
    reached: trio.Event = field(default_factory=trio.Event)

    def __call__(self, image: ClusterImage, delta: ClusterDelta) -> None:
        self.image = delta.applied_to(self.image)
        assert self.image == image
        self.seen.append(image.version)
        reached, self.reached = self.reached, trio.Event()
        reached.set()

    async def wait_for(self, version: int) -> None:
        while self.image.version < version:
            await self.reached.wait()


def opened(folder: Path, retention: Retention | None = None) -> MetadataLog:
    return MetadataLog(folder, Files(), DEFAULTS, NOW_MS, retention)


@asynccontextmanager
async def observing(
    folder: Path,
    *ports: int,
    cluster_id: str = CLUSTER,
    retention: Retention | None = None,
    voters: tuple[int, ...] = (),
) -> AsyncIterator[Follower]:
    """A running link to the controllers on these ports, whose log is in `folder`."""
    peers = ControllerPeers(lambda: BrokerConfig(SETTINGS))
    quorum = Quorum(tuple(Address("127.0.0.1", port) for port in ports), voters)
    identity = ObserverIdentity(cluster_id, 1, b"d" * 16)
    link = MetadataLink(identity, quorum, opened(folder, retention), peers, LIMITS)
    follower = Follower(link, link.image)
    link.watch(follower)
    with closing(link), trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.run)
            yield follower
            nursery.cancel_scope.cancel()


async def test_observer_gets_the_image_of_the_whole_log(tmp_path: Path) -> None:
    async with (
        serving(Controller(100, RECORDED.log, batches_max=7)) as controller,
        observing(tmp_path, controller.port) as follower,
    ):
        image = await follower.link.load()
        assert image == replayed_to(END).image == follower.image
        assert follower.seen == sorted(follower.seen)
        assert len(follower.seen) > 50, "one image for each batch"
        leader = follower.link.news.leader
        assert (leader.id, leader.epoch) == (100, 2)
        assert leader.address == Address("127.0.0.1", controller.port)
        await controller.wait_fetched_to(END)
    first, last = controller.fetched[0].topics[0].partitions[0], controller.fetched[-1]
    assert (first.high_watermark, first.current_leader_epoch) == (-1, 0)
    assert last.topics[0].partitions[0].high_watermark == END
    assert last.topics[0].partitions[0].last_fetched_epoch == 2
    assert {request.client_id for request in controller.requests} == {"raft-client-1"}
    assert (tmp_path / "00000000000000000000.log").read_bytes() == RECORDED.log
    assert (tmp_path / "quorum-state").read_bytes() == RECORDED.files["quorum-state"]


async def test_records_behind_the_high_watermark_are_not_published(tmp_path: Path) -> None:
    middle = BATCHES[40].base_offset
    controller = Controller(100, RECORDED.log, high_watermark=middle)
    async with serving(controller), observing(tmp_path, controller.port) as follower:
        await follower.link.load()
        await controller.wait_fetched_to(END)
        assert follower.image == replayed_to(middle).image
        controller.high_watermark = END
        await follower.wait_for(END)


async def test_restarted_observer_continues_its_log(tmp_path: Path) -> None:
    middle = BATCHES[60].base_offset
    whole = Controller(100, RECORDED.log)
    controller = Controller(100, RECORDED.log[: whole.ends[middle][0]])
    async with serving(controller), observing(tmp_path, controller.port) as follower:
        await follower.link.load()
    async with serving(whole), observing(tmp_path, whole.port) as follower:
        assert await follower.link.load() == replayed_to(END).image
        assert whole.fetched[0].topics[0].partitions[0].fetch_offset == middle


async def test_leader_is_found_by_any_controller_and_followed_when_it_changes(
    tmp_path: Path,
) -> None:
    first = Controller(100, RECORDED.log, high_watermark=END, epoch=2)
    other = Controller(101, RECORDED.log, leader=first)
    async with serving(first), serving(other), observing(tmp_path, other.port) as follower:
        await follower.link.load()
        assert follower.link.news.leader.id == 100
        first.leader, other.leader, other.epoch = other, None, 3
        while follower.link.news.leader.id != 101:
            await follower.link.news.wait_changed(DEADLINE_S * 1000)
        await other.wait_fetched_to(END)
    assert b'"leaderId":101,"leaderEpoch":3' in (tmp_path / "quorum-state").read_bytes()


async def test_leader_that_breaks_connections_is_asked_again(tmp_path: Path) -> None:
    controller = Controller(100, RECORDED.log)
    async with serving(controller), observing(tmp_path, controller.port) as follower:
        await follower.link.load()
        controller.is_mute = True
        server = controller.server
        assert server is not None
        seen = server.connections
        await controller.wait_until(lambda: server.connections >= seen + 3)
        controller.is_mute = False
        before = len(controller.fetched)
        await controller.wait_until(lambda: len(controller.fetched) > before)
        assert follower.link.is_caught_up


async def test_snapshot_is_downloaded_when_the_log_begins_later(tmp_path: Path) -> None:
    (end_offset, epoch), content = sorted(RECORDED.snapshots.items())[-2]
    snapshot = SnapshotId(end_offset, epoch)
    controller = Controller(100, RECORDED.log, start=end_offset, snapshot=snapshot, content=content)
    async with serving(controller), observing(tmp_path, controller.port) as follower:
        image = await follower.link.load()
        assert comparable(image) == comparable(replayed_to(END).image)
        assert follower.seen[0] == end_offset
    assert opened(tmp_path).snapshots == [snapshot]
    async with serving(controller), observing(tmp_path, controller.port) as follower:
        assert follower.image.version == end_offset, "read from the disk"
        again = await follower.link.load()
        assert comparable(again) == comparable(image)


async def test_damaged_snapshot_is_downloaded_again(tmp_path: Path) -> None:
    (end_offset, epoch), content = sorted(RECORDED.snapshots.items())[-1]
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 1
    controller = Controller(
        100,
        RECORDED.log,
        start=end_offset,
        snapshot=SnapshotId(end_offset, epoch),
        content=bytes(damaged),
    )
    async with serving(controller), observing(tmp_path, controller.port) as follower:
        # The Fetch behind a download names the snapshot again.
        await controller.wait_until(lambda: len(controller.fetched) >= 4)
        assert follower.seen == []
        controller.content = content
        await follower.link.load()


async def test_damaged_batch_is_fetched_again(tmp_path: Path) -> None:
    good = RECORDED.log
    controller = Controller(100, good)
    controller.log = bytes([*good[:-1], good[-1] ^ 1])
    async with serving(controller), observing(tmp_path, controller.port) as follower:
        await controller.wait_until(lambda: len(controller.fetched) >= 5)
        controller.log = good
        assert await follower.link.load() == replayed_to(END).image


def has_snapshot(folder: Path) -> bool:
    return any(folder.glob("*.checkpoint"))


async def test_snapshots_of_the_own_image_bound_the_log(tmp_path: Path) -> None:
    retention = Retention(snapshot_after_bytes=4000, bytes_max=0, age_ms_max=-1)
    controller = Controller(100, RECORDED.log, batches_max=10)
    async with (
        serving(controller),
        observing(tmp_path, controller.port, retention=retention) as follower,
    ):
        await follower.link.load()
        # The snapshot is written beside the requests, and finished before the end of the task.
        await controller.wait_until(lambda: has_snapshot(tmp_path))
    log = opened(tmp_path)
    assert len(log.snapshots) == 1
    assert log.newest_snapshot is not None
    replay = MetadataReplay(CLUSTER)
    replay.load(*log.newest_snapshot, list(log.snapshot(log.newest_snapshot)))
    for batch in log.batches(replay.end_offset, END):
        replay.add(batch)
    assert comparable(replay.image) == comparable(replayed_to(END).image)


async def refusal(folder: Path, controller: Controller, cluster_id: str = CLUSTER) -> str:
    """The text of the StoreError with which the link ends, which `load` raises too."""
    said, ended = "", BaseExceptionGroup("", [StoreError()])
    try:
        async with (
            serving(controller),
            observing(folder, controller.port, cluster_id=cluster_id) as follower,
        ):
            with pytest.raises(StoreError) as raised:
                await follower.link.load()
            said = str(raised.value)
            await trio.sleep_forever()
    except* StoreError as errors:
        ended = errors
    first: BaseException = ended
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert str(first) == said
    return said


async def test_controllers_of_another_cluster_are_refused(tmp_path: Path) -> None:
    said = await refusal(tmp_path, Controller(100, RECORDED.log), "other")
    assert "belongs to another cluster than other" in said


def log_with(*values: bytes) -> bytes:
    """The recorded log with a batch more."""
    records_more = [Record(0, 0, None, value) for value in values]
    more = build(records_more, base_offset=END, partition_leader_epoch=2)
    return RECORDED.log + bytes(more)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\x01\x63\x00", "metadata record type 99 is not known"),
        (
            encode(FeatureLevelRecord("metadata.version", 34), 0),
            "the cluster has metadata.version 34",
        ),
        (encode(FeatureLevelRecord("metadata.version", 20), 0), "kwire needs 21"),
    ],
)
async def test_what_this_version_cannot_follow_ends_the_link_with_the_reason(
    tmp_path: Path, value: bytes, why: str
) -> None:
    assert why in await refusal(tmp_path, Controller(100, log_with(value)))


async def test_static_voters_are_named_in_quorum_state_below_kraft_version_1(
    tmp_path: Path,
) -> None:
    old = recording("from-3.9")
    controller = Controller(100, old.log, epoch=1)
    async with (
        serving(controller),
        observing(tmp_path, controller.port, voters=(100,)) as follower,
    ):
        await follower.link.load()
    assert (tmp_path / "quorum-state").read_bytes() == old.files["quorum-state"]


async def test_channel_asks_the_leader_and_follows_it(tmp_path: Path) -> None:
    first = Controller(100, RECORDED.log)
    other = Controller(101, RECORDED.log, leader=first)
    request = BrokerHeartbeatRequest(broker_id=1)
    async with serving(first), serving(other), observing(tmp_path, other.port) as follower:
        channel = follower.link.channel("1", 60_000)
        answer = await channel.call(request, DEADLINE_S * 1000)
        assert answer.error_code == 0
        assert channel.leader_id == 100
        first.leader, other.leader, other.epoch = other, None, 3
        answer = await channel.call(request, DEADLINE_S * 1000)
        assert answer.error_code == 0
        assert channel.leader_id == 101
    assert "1" in {each.client_id for each in first.requests}


async def test_channel_says_why_no_controller_answers_in_time(tmp_path: Path) -> None:
    first = Controller(100, RECORDED.log)
    async with serving(first), observing(tmp_path, first.port) as follower:
        await follower.link.load()
        first.leader = first
        with pytest.raises(PeerError, match="it is not the leader"):
            await follower.link.channel("1", 60_000).call(BrokerHeartbeatRequest(), 300)


async def test_channel_says_that_no_leader_is_known(tmp_path: Path) -> None:
    mute = Controller(100, RECORDED.log, is_mute=True)
    async with serving(mute), observing(tmp_path, mute.port) as follower:
        with pytest.raises(PeerError, match="no leader of them is known"):
            await follower.link.channel("1", 60_000).call(BrokerHeartbeatRequest(), 50)


def test_quorum_is_read_from_servers_and_voters() -> None:
    assert bootstrap_of(["a:1", "[::1]:2"], []) == Quorum((Address("a", 1), Address("::1", 2)))
    assert bootstrap_of([], ["3@c:4"]) == Quorum((Address("c", 4),), (3,))
    with pytest.raises(ValueError, match="c is not host:port"):
        bootstrap_of(["c"], [])
