"""A partition moves to another of the log.dirs while clients are at work."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.changes import SetConfigs
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.log import LogError, delete_records
from kwire.log.directory.files import Files
from kwire.settings import ConfigResourceType
from kwire.storage.partitions import moving
from kwire.storage.partitions.partition import Partition
from tests.inside import PATIENCE_S, RawClient, counting_stalls, running_broker, until

TOPIC = "t"
VALUE = bytes(100_000)


def produce() -> ProduceRequest:
    records = bytes(build([Record(0, Broker.now_ms(), None, VALUE, [])]))
    topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, records)])
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def move_to(path: Path) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(TOPIC, [0])]
    return AlterReplicaLogDirsRequest([AlterReplicaLogDir(str(path), topics)])


async def ask_to_move(client: RawClient, path: Path) -> int:
    answer = await client.ask(move_to(path), 2, AlterReplicaLogDirsResponse)
    return answer.results[0].partitions[0].error_code


async def write(client: RawClient, count: int) -> int:
    """Write `count` records; the offset of the last one."""
    offset = -1
    for _ in range(count):
        answer = await client.ask(produce(), 9, ProduceResponse)
        partition = answer.responses[0].partition_responses[0]
        assert partition.error_code == ErrorCode.NONE
        offset = partition.base_offset
    return offset


async def new_partition(client: RawClient, broker: Broker) -> tuple[Partition, Path]:
    """The topic's partition, and the directory that does not have it."""
    request = CreateTopicsRequest(topics=[CreatableTopic(TOPIC, 1, 1)], timeout_ms=5000)
    await client.ask(request, 5, CreateTopicsResponse)
    partition = broker.hosted.by_topic[TOPIC][0]
    (other,) = (d.path for d in broker.logs.online_dirs if d.path != partition.log.dir.parent)
    return partition, other


async def described(client: RawClient) -> dict[str, list[tuple[bool, int, int]]]:
    """By log directory: (is a copy, lag, size) of the topic's partition."""
    answer = await client.ask(DescribeLogDirsRequest(None), 4, DescribeLogDirsResponse)
    return {
        Path(result.log_dir).name: [
            (each.is_future_key, each.offset_lag, each.partition_size)
            for topic in result.topics
            for each in topic.partitions
        ]
        for result in answer.results
    }


async def moved(client: RawClient, path: Path) -> None:
    """Wait until the partition is only in `path`."""
    with trio.fail_after(PATIENCE_S):
        while True:
            directories = await described(client)
            if [each[0] for each in directories.pop(path.name)] == [False] and not any(
                directories.values()
            ):
                return


def two_dirs(tmp_path: Path) -> dict[str, str]:
    return {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}


async def test_records_appended_during_a_move_are_kept(tmp_path: Path) -> None:
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client, writer = await RawClient.connect(broker), await RawClient.connect(broker)
        partition, other = await new_partition(client, broker)
        await write(writer, 100)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, writer, 100)
            assert await ask_to_move(client, other) == ErrorCode.NONE
            await moved(client, other)
        assert await write(writer, 1) == 200
        folders = {path.name for path in other.iterdir() if path.is_dir()}
        assert folders == {"t-0"}
        log = partition.log
        region = log.read(0, 1 << 30, max_offset=201, min_one_batch=True)
        assert region is not None
        assert region.size_bytes == log.segments.size_bytes > 201 * len(VALUE)
        assert partition.high_watermark == log.log_end_offset == 201
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        assert broker.hosted.by_topic[TOPIC][0].log.dir == other / "t-0"
        assert broker.hosted.by_topic[TOPIC][0].log_end_offset == 201


@pytest.fixture
def nothing_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A requested move does not run."""
    monkeypatch.setattr(moving, "INTERVAL_S", 3600)


@pytest.mark.usefixtures("nothing_moves")
async def test_describe_log_dirs_reports_the_lag_of_a_move(tmp_path: Path) -> None:
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        partition, other = await new_partition(client, broker)
        await write(client, 30)
        assert await ask_to_move(client, other) == ErrorCode.NONE
        here = partition.log.dir.parent.name
        size_bytes = partition.log.segments.size_bytes
        directories = await described(client)
        assert directories == {here: [(False, 0, size_bytes)], other.name: [(True, 30, 0)]}
        assert broker.logs.moves.copy_some((TOPIC, 0))
        ((is_copy, lag, copied_bytes),) = (await described(client))[other.name]
        assert is_copy
        assert 0 < lag < 30
        assert copied_bytes == size_bytes // 30 * (30 - lag)


@pytest.mark.usefixtures("nothing_moves")
async def test_log_truncated_during_a_move_is_copied_again(tmp_path: Path) -> None:
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        partition, other = await new_partition(client, broker)
        await write(client, 30)
        assert await ask_to_move(client, other) == ErrorCode.NONE
        moves = broker.logs.moves
        assert moves.copy_some((TOPIC, 0))
        delete_records(partition.log, 25, 30)
        while moves.copy_some((TOPIC, 0)):
            pass
        copy = moves.copies[TOPIC, 0].log
        assert (copy.log_start_offset, copy.log_end_offset) == (25, 30)


async def test_move_continues_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "INTERVAL_S", 3600)
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        partition, other = await new_partition(client, broker)
        await write(client, 50)
        assert await ask_to_move(client, other) == ErrorCode.NONE
        broker.logs.moves.copy_some((TOPIC, 0))
    assert any(path.name.endswith("-future") for path in other.iterdir())
    monkeypatch.undo()
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        await moved(await RawClient.connect(broker), other)
        partition = broker.hosted.by_topic[TOPIC][0]
        assert partition.log_end_offset == 50


async def test_interrupted_swap_of_a_move_is_finished_at_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        partition, other = await new_partition(client, broker)
        await write(client, 5)
        here = partition.log.dir
    unique = "0123456789abcdef" * 2
    here.rename(other / f"t-0.{unique}-future")
    (here.parent / f"t-0.{unique}-delete").mkdir()
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        assert broker.hosted.by_topic[TOPIC][0].log.dir == other / "t-0"
        assert broker.hosted.by_topic[TOPIC][0].log_end_offset == 5


@pytest.mark.usefixtures("nothing_moves")
async def test_move_back_or_deletion_ends_a_move(tmp_path: Path) -> None:
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        partition, other = await new_partition(client, broker)
        here = partition.log.dir.parent
        assert await ask_to_move(client, other) == ErrorCode.NONE
        assert await ask_to_move(client, here) == ErrorCode.NONE
        assert not broker.logs.moves.copies
        assert await ask_to_move(client, other) == ErrorCode.NONE
        broker.logs.delete(TOPIC, 0)
        assert not broker.logs.moves.copies
        assert not any(path.name.endswith("-future") for path in other.iterdir())


@pytest.mark.usefixtures("nothing_moves")
async def test_move_to_a_failed_directory_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        _, other = await new_partition(client, broker)
        assert await ask_to_move(client, tmp_path / "c") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await ask_to_move(client, other) == ErrorCode.NONE
        target = next(each for each in broker.logs.online_dirs if each.path == other)
        broker.logs.dirs.dir_failed(target, OSError(5, "Input/output error"))
        assert not broker.logs.moves.copies
        assert await ask_to_move(client, other) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await write(client, 1) == 0


@pytest.mark.usefixtures("nothing_moves")
async def test_move_runs_without_pauses_once_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is none between the slices, before the flush or before the swap."""
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        partition, other = await new_partition(client, broker)
        await write(client, 25)
        assert await ask_to_move(client, other) == ErrorCode.NONE
        copy_some = broker.logs.moves.copy_some

        def begun(key: tuple[str, int]) -> int:
            monkeypatch.setattr(moving, "INTERVAL_S", 3600)
            return copy_some(key)

        monkeypatch.setattr(broker.logs.moves, "copy_some", begun)
        monkeypatch.setattr(moving, "INTERVAL_S", 0.001)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(moving.run, broker.settings, broker.hosted, broker.now_ms)
            await until(lambda: partition.log.dir.parent == other)
            nursery.cancel_scope.cancel()
        assert partition.log_end_offset == 25


@pytest.mark.usefixtures("nothing_moves")
async def test_failed_move_is_cancelled_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        partition, other = await new_partition(client, broker)
        here = partition.log.dir.parent
        assert await ask_to_move(client, other) == ErrorCode.NONE

        def fail(_: object) -> int:
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR)

        monkeypatch.setattr(broker.logs.moves, "copy_some", fail)
        monkeypatch.setattr(moving, "INTERVAL_S", 0.001)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(moving.run, broker.settings, broker.hosted, broker.now_ms)
            await until(lambda: not broker.logs.moves.copies)
            await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert partition.log.dir.parent == here
        assert await write(client, 1) == 0
        assert [each.getMessage() for each in caplog.records if "Cannot move t-0" in each.message]


async def test_move_keeps_to_the_configured_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """replica.alter.log.dirs.io.max.bytes.per.second limits the copied bytes.

    Nothing waits for the disk, whose time is not the rate's.
    """
    monkeypatch.setattr(Files, "fsync", staticmethod(lambda descriptor: None))
    rate = {moving.RATE: "2000000"}
    async with running_broker(tmp_path, two_dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        partition, other = await new_partition(client, broker)
        await write(client, 60)  # six million bytes
        node = str(broker.node_id)
        await broker.membership.commit(
            [lambda _: SetConfigs(ConfigResourceType.BROKER, node, {}, rate)]
        )
        async with counting_stalls() as stalls:
            began = trio.current_time()
            assert await ask_to_move(client, other) == ErrorCode.NONE
            await moved(client, other)
            took_s = trio.current_time() - began
        wanted_s = 6_000_000 / 2_000_000
        assert took_s >= wanted_s
        assert took_s - stalls.for_s <= 1.5 * wanted_s + 1
        assert partition.log_end_offset == 60
