"""Who has a broker for a test waits for no disk: nobody wants its data once the machine is off."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.log.directory.files import Files, FleetingFiles
from kwire.server.server import serve
from kwire.settings import load
from tests.inside import RawClient


async def run_with(directory: Path, files: Files) -> None:
    """Start a broker, make a topic, and stop it cleanly."""
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory)}
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        running = partial(serve, files=files)
        broker: Broker = await nursery.start(running, load(None, settings), stop)
        client = await RawClient.connect(broker)
        request = CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)])
        answer = await client.ask(request, 7, CreateTopicsResponse)
        assert [topic.error_code for topic in answer.topics] == [0]
        client.stream.socket.close()
        stop.set()


async def test_nothing_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(Files, "fsync", staticmethod(synced.append))
    await run_with(tmp_path, FleetingFiles())
    assert synced == []
    await run_with(tmp_path / "lasting", Files())
    assert len(synced) > 4


async def test_what_was_there_is_there_at_the_next_start(tmp_path: Path) -> None:
    await run_with(tmp_path, FleetingFiles())
    assert (tmp_path / "t-0").is_dir()
    assert '"t"' in (tmp_path / "kwire-metadata.log").read_text()
