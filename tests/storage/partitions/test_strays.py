"""Folders of topics that are not in the metadata are kept, and no new topic uses them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.inside import RawClient, running_broker


async def create(client: RawClient, topic: str) -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(topic, 1, 1)], timeout_ms=5000)
    answer = await client.ask(request, 5, CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE


def append(broker: Broker, topic: str) -> None:
    now_ms = Broker.now_ms()
    batch = build([Record(0, now_ms, None, b"v", [])])
    broker.hosted.by_topic[topic][0].append(batch, now_ms=now_ms)


def strays(directory: Path) -> list[Path]:
    return list(directory.glob("*-0.*-stray"))


def sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in folder.glob("*.log")]


@pytest.mark.parametrize("has_id", [True, False])
async def test_new_topic_with_the_name_of_a_stray_begins_empty(
    tmp_path: Path, has_id: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        await create(await RawClient.connect(broker), "t")
        append(broker, "t")
    shutil.copytree(tmp_path / "t-0", tmp_path / "found-0")
    if not has_id:
        (tmp_path / "found-0" / "partition.metadata").unlink()
    async with running_broker(tmp_path) as broker:
        assert broker.logs.logs["found", 0].log_end_offset == 1
        await create(await RawClient.connect(broker), "found")
        assert broker.hosted.by_topic["found"][0].log_end_offset == 0
        append(broker, "found")
    (stray,) = strays(tmp_path)
    assert sizes(stray)[0] > 0
    async with running_broker(tmp_path) as broker:
        assert broker.hosted.by_topic["found"][0].log_end_offset == 1
    assert strays(tmp_path) == [stray]


async def test_folder_of_a_topic_deleted_while_offline_is_set_aside(tmp_path: Path) -> None:
    dirs = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_broker(tmp_path, dirs) as broker:
        client = await RawClient.connect(broker)
        await create(client, "first")  # so that one of them is in b
        await create(client, "second")
        (name,) = (t for t in ("first", "second") if (tmp_path / "b" / f"{t}-0").exists())
        append(broker, name)
        (lost,) = (d for d in broker.logs.online_dirs if d.path.name == "b")
        broker.logs.dirs.dir_failed(lost, OSError(5, "made up"))
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
        deleted = await client.ask(request, 5, DeleteTopicsResponse)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        await create(client, name)
        append(broker, name)
        append(broker, name)
    async with running_broker(tmp_path, dirs) as broker:
        assert broker.hosted.by_topic[name][0].log_end_offset == 2
        assert broker.hosted.by_topic[name][0].log.dir == tmp_path / "a" / f"{name}-0"
    assert len(strays(tmp_path / "b")) == 1
