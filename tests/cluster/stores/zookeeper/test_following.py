"""How a controller reads topics that others created, and at which cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.cluster.metadata.changes import CreateTopic
from kwire.cluster.stores.zookeeper import following, znodes
from kwire.testing import ZooKeeperProcess
from tests.cluster.stores.zookeeper.stores import TOPIC, leading, opened

pytestmark = [pytest.mark.java, pytest.mark.slow]


async def test_controller_reads_topics_created_by_others_while_it_creates_its_own(
    zookeeper: ZooKeeperProcess, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(zookeeper.connect(f"/{unique}")) as store:
        await leading(store)
        asked: list[str] = []
        children = store.session.children

        async def counted(path: str, watch: bool = False) -> list[str]:
            asked.append(path)
            return await children(path, watch)

        monkeypatch.setattr(store.session, "children", counted)
        monkeypatch.setattr(following, "LIST_PAUSE_RATIO", 200)
        for number in range(1, 21):
            topic = replace(TOPIC, name=f"t{number}", id=bytes([number]) * 16)
            await store.commit([CreateTopic(topic)])
        other = replace(TOPIC, name="other", id=b"o" * 16)
        session, path = store.session, znodes.topic_path("other")
        await session.multi([session.create(path, znodes.encode_topic(other))])
        image = await store.shows(lambda image: "other" in image.topics)
        assert len(image.topics) == 21
        assert asked.count(znodes.TOPICS) < 10, "the list is not read for each topic"
