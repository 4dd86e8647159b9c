"""The first request of an API key: a thread imports its handler, while others are served."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import trio

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.requests import routes
from tests.inside import RawClient, running_broker

LIMIT_S = 30.0
METADATA = "kwire.requests.handlers.metadata"


class SlowDisk(importlib.abc.MetaPathFinder):
    """Holds the import of the Metadata handler until `go_on` is set."""

    def __init__(self) -> None:
        self.imported_in: threading.Thread | None = None
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != METADATA:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        loader = spec.loader
        assert isinstance(loader, importlib.machinery.SourceFileLoader)
        spec.loader = HeldLoader(self, loader)
        return spec


class HeldLoader(importlib.abc.Loader):
    """Runs a module once the disk goes on."""

    def __init__(self, disk: SlowDisk, loader: importlib.machinery.SourceFileLoader) -> None:
        self._disk = disk
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        self._disk.imported_in = threading.current_thread()
        self._disk.begun.set()
        assert self._disk.go_on.wait(LIMIT_S)
        self._loader.exec_module(module)


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    """A disk with the Metadata handler, which nothing has imported yet."""
    disk = SlowDisk()
    monkeypatch.setattr(sys, "meta_path", [disk, *sys.meta_path])
    monkeypatch.setattr(routes, "_bindings", {})
    monkeypatch.delitem(sys.modules, METADATA, raising=False)
    yield disk
    disk.go_on.set()


async def test_other_requests_are_answered_while_a_handler_is_imported(
    tmp_path: Path, slow_disk: SlowDisk
) -> None:
    with trio.fail_after(LIMIT_S):
        async with running_broker(tmp_path) as broker:
            first, second, other = [await RawClient.connect(broker) for _ in range(3)]
            await other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)  # imports its handler
            for client in (first, second):
                await client.send(MetadataRequest(None), 12)
                await client.send(ApiVersionsRequest(), 0)  # its reply must not overtake
            assert await trio.to_thread.run_sync(slow_disk.begun.wait, LIMIT_S)
            assert slow_disk.imported_in is not threading.current_thread()
            assert (await other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)).error_code == 0
            slow_disk.go_on.set()
            for client in (first, second):
                _, metadata = await client.receive(MetadataResponse, 12)
                assert len(metadata.brokers) == 1
                _, versions = await client.receive(ApiVersionsResponse, 0)
                assert versions.error_code == 0


def test_unserved_version_is_refused_without_an_import(slow_disk: SlowDisk) -> None:
    with pytest.raises(routes.UnservedRequest):
        routes.bind_imported(ApiKey.METADATA, 99)
    with pytest.raises(routes.HandlerNotImported):
        routes.bind_imported(ApiKey.METADATA, 12)
    assert slow_disk.imported_in is None


def test_first_use_of_a_coordinator_imports_nothing_that_a_thread_has_not(tmp_path: Path) -> None:
    """In a process of its own, where nothing of it is imported yet."""
    code = """
import sys, trio
from kwire.coordinators.runtime.coordinators import _MODULES, Coordinators
for topic, modules in _MODULES.items():
    assert not sys.modules.keys() & set(modules), topic
    trio.run(Coordinators.import_for, topic)
    assert sys.modules.keys() >= set(modules), topic
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT_S)
