"""Disks that fail under a broker at work: the errors for clients, what still works, what is kept.

As in Apache Kafka 4.3.1, a full directory answers KAFKA_STORAGE_ERROR while the others are served.
Partitions of a directory that is offline at the start are not created elsewhere; new ones are.
"""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.cluster.stores.change_log import ChangeLog
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.log import LogDirError
from kwire.log.directory.files import Files, OpenFile
from kwire.storage.partitions.partition import Partition
from tests.descriptors import path_of
from tests.inside import PATIENCE_S, RawClient, running_broker

TOPIC = "t"
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Fault:
    """An error of calls that change files whose path contains `word`, until it is lifted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.word, self.code = "", 0
        self.calls: set[str] = set()
        self.hits: list[str] = []
        real_open = Files.open

        def open_(files: Files, path: Path | str) -> OpenFile:
            if not Path(path).exists():
                self.check("create", str(path))
            return real_open(files, path)

        monkeypatch.setattr(Files, "open", open_)
        for name in ("pwrite", "fsync"):
            monkeypatch.setattr(Files, name, staticmethod(self._checked(name)))

    def _checked(self, name: str) -> Callable[..., object]:
        real: Callable[..., object] = getattr(Files, name)

        def call(fd: int, *arguments: object) -> object:
            self.check(name, path_of(fd))
            return real(fd, *arguments)

        return call

    def check(self, call: str, path: str) -> None:
        if self.code and call in self.calls and self.word in path:
            self.hits.append(call)
            raise OSError(self.code, "made up")

    def begin(self, word: str, code: int, *calls: str) -> None:
        self.word, self.code, self.calls = word, code, set(calls)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    return Fault(monkeypatch)


async def create(client: RawClient, name: str = TOPIC, **configs: str) -> ErrorCode:
    made = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=made)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    reply = await client.ask(request, 5, CreateTopicsResponse)
    return ErrorCode(reply.topics[0].error_code)


async def write(client: RawClient, index: int, size: int = 10) -> tuple[ErrorCode, int]:
    records = bytes(build([Record(0, Broker.now_ms(), None, bytes(size), [])]))
    data = PartitionProduceData(index=index, records=records)
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    reply = await client.ask(request, 7, ProduceResponse)
    answer = reply.responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.base_offset


def placed(broker: Broker) -> tuple[Partition, Partition]:
    """The partition in the first directory, which has the metadata, and the one in the other."""
    first, other = sorted(
        broker.hosted.by_topic[TOPIC].values(), key=lambda each: str(each.log.dir)
    )
    return first, other


def dirs(tmp_path: Path) -> dict[str, str]:
    return {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}


FAULTS = {
    "EIO on write": (errno.EIO, ["pwrite"]),
    "EIO on fsync": (errno.EIO, ["fsync"]),
    "no room at fsync": (errno.ENOSPC, ["fsync"]),
    "read-only": (errno.EROFS, ["create", "pwrite"]),
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_failed_directory_alone_is_offline_until_a_restart(
    tmp_path: Path, fault: Fault, kind: str
) -> None:
    """It stays offline when the disk works again: a failed fsync may have lost data."""
    code, calls = FAULTS[kind]
    async with running_broker(tmp_path, dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        assert await create(client, flush_messages="1") is ErrorCode.NONE
        kept, lost = placed(broker)
        assert await write(client, lost.index) == (ErrorCode.NONE, 0)
        fault.begin("/b/", code, *calls)
        assert (await write(client, lost.index))[0] is STORAGE_ERROR
        assert len(fault.hits) == 1
        fault.code = 0
        assert (await write(client, lost.index))[0] is STORAGE_ERROR
        assert await write(client, kept.index) == (ErrorCode.NONE, 0)
        assert list(broker.logs.offline_dirs) == [tmp_path / "b"]
        assert len(fault.hits) == 1, "a failed fsync is not tried again"
        assert await create(client, "new") is ErrorCode.NONE
        made = {each.log.dir.parent.name for each in broker.hosted.by_topic["new"].values()}
        assert made == {"a"}
        index = lost.index
    async with running_broker(tmp_path, dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        error, offset = await write(client, index)
        assert error is ErrorCode.NONE
        assert offset >= 1, "what was acknowledged is there"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.ENFILE])
async def test_shortage_takes_no_directory_offline(tmp_path: Path, fault: Fault, code: int) -> None:
    async with running_broker(tmp_path, dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        await create(client)
        kept, short = placed(broker)
        fault.begin("/b/", code, "pwrite", "create")
        assert (await write(client, short.index))[0] is STORAGE_ERROR
        assert await write(client, kept.index) == (ErrorCode.NONE, 0)
        fault.code = 0
        assert await write(client, short.index) == (ErrorCode.NONE, 0)
        assert not broker.logs.offline_dirs


async def until_it_stops(tmp_path: Path, fault: Fault) -> None:
    async with running_broker(tmp_path, dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        await create(client)
        first, other = placed(broker)
        fault.begin(f"/{TOPIC}-", errno.EIO, "pwrite")
        assert (await write(client, other.index))[0] is STORAGE_ERROR
        assert not broker.storage_lost.is_set(), "one directory is left"
        assert (await write(client, first.index))[0] is STORAGE_ERROR
        with trio.fail_after(PATIENCE_S):
            await broker.storage_lost.wait()


async def test_broker_without_log_directories_stops_with_the_reason(
    tmp_path: Path, fault: Fault
) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(LogDirError, match=r"all log\.dirs have failed.*made up"),
        flatten_subgroups=True,
        allow_unwrapped=True,
    ):
        await until_it_stops(tmp_path, fault)


async def test_failed_fsync_of_the_metadata_stops_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache Kafka halts when its metadata log's directory fails."""

    def failing(log: ChangeLog, line: bytes) -> None:
        raise OSError(errno.EIO, "made up")

    with pytest.RaisesGroup(
        pytest.RaisesExc(LogDirError, match="which holds the metadata.*made up"),
        flatten_subgroups=True,
        allow_unwrapped=True,
    ):
        async with running_broker(tmp_path, dirs(tmp_path)) as broker:
            client = await RawClient.connect(broker)
            monkeypatch.setattr(ChangeLog, "_append", failing)
            assert await create(client) is STORAGE_ERROR
            with trio.fail_after(PATIENCE_S):
                await broker.storage_lost.wait()


async def test_partition_of_an_offline_directory_is_not_created_again(tmp_path: Path) -> None:
    """An empty partition in its place would tell consumers that its records are gone."""
    async with running_broker(tmp_path, dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        await create(client)
        kept, lost = (each.index for each in placed(broker))
        assert await write(client, lost) == (ErrorCode.NONE, 0)
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").write_text("no folder")
    async with running_broker(tmp_path, dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        broker.membership.open_missing()
        assert (await write(client, lost))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await write(client, kept) == (ErrorCode.NONE, 0)
        assert set(broker.hosted.by_topic[TOPIC]) == {kept}
    (tmp_path / "b").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "b")
    async with running_broker(tmp_path, dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        assert await write(client, lost) == (ErrorCode.NONE, 1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    path = tmp_path / "b"
    path.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(path)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs more rights than this process has")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


async def test_full_disk_loses_no_acknowledged_record(tmp_path: Path, small_disk: Path) -> None:
    """Afterwards exactly the acknowledged records are there, also after a restart."""
    async with running_broker(tmp_path, dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        await create(client, segment_bytes=str(1 << 20))
        kept, full = (each.index for each in placed(broker))
        acknowledged = 0
        while (answer := await write(client, full, 30_000))[0] is ErrorCode.NONE:
            assert answer[1] == acknowledged
            acknowledged += 1
        assert answer[0] is STORAGE_ERROR
        assert acknowledged > 20
        assert await write(client, kept) == (ErrorCode.NONE, 0)
        await trio.run_process(["mount", "-o", "remount,size=2m", str(small_disk)])
        assert await write(client, full, 30_000) == (ErrorCode.NONE, acknowledged)
        assert not broker.logs.offline_dirs
    async with running_broker(tmp_path, dirs(tmp_path)) as broker:
        client = await RawClient.connect(broker)
        assert await write(client, full) == (ErrorCode.NONE, acknowledged + 1)
