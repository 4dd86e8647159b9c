"""LocalStore: its file is complete after any crash, and damage in it is an error."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
import trio.testing
from crc32c import crc32c

from kwire.cluster.metadata.changes import Change, CreateTopic, DeleteTopic, SetConfigs, apply_all
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import (
    FIRST_PRODUCER_ID,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.stores import change_log
from kwire.cluster.stores.change_log import ChangeLog
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.local import LocalStore
from kwire.log.directory.files import Files
from tests.cluster.metadata.images import STATE

GROUP = 32
PATIENCE_S = 120


class Crash(BaseException):
    """Raised where the process ends."""


def creation(name: str) -> CreateTopic:
    return CreateTopic(TopicImage(name, name.encode().ljust(16, b"-"), (STATE,)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kwire-metadata.log"


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without fsync, for tests that write often and have no power cut."""
    monkeypatch.setattr(Files, "fsync", staticmethod(lambda descriptor: None))


def size_of(path: Path) -> int:
    return path.stat().st_size


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def reloaded(path: Path) -> ClusterImage:
    store = LocalStore(path)
    store.close()
    return await store.load()


@pytest.mark.slow
@pytest.mark.usefixtures("quick_disk")
async def test_file_truncated_at_any_byte_has_the_changes_acknowledged_before(path: Path) -> None:
    """kill -9 or a power cut in the middle of a write leaves such a file."""
    store = LocalStore(path)
    images = {size_of(path): await store.load()}
    batches: list[list[Change]] = [
        [creation("a")],
        [creation("b"), SetConfigs(GROUP, "g\n☃", {}, {"x": "1"})],
        [DeleteTopic("a", creation("a").topic.id)],
    ]
    for batch in batches:
        image = await store.commit(batch)
        images[size_of(path)] = image
    store.close()
    whole = content_of(path)
    for size in range(min(images), len(whole) + 1):
        put(path, whole[:size])
        acknowledged = max(end for end in images if end <= size)
        assert await reloaded(path) == images[acknowledged], size
        assert size_of(path) == acknowledged, "the torn end is gone"


async def test_torn_end_of_any_bytes_is_cut_off(path: Path) -> None:
    """A power cut may leave the new length of the file without its content."""
    store = LocalStore(path)
    image = await store.commit([creation("a")])
    kept = size_of(path)
    await store.commit([creation("b")])
    store.close()
    whole = content_of(path)
    for torn in (bytes(len(whole) - kept), bytes(len(whole) - kept - 1) + b"\n"):
        put(path, whole[:kept] + torn)
        assert await reloaded(path) == image


async def test_commits_continue_after_a_torn_end(path: Path) -> None:
    store = LocalStore(path)
    await store.commit([creation("a")])
    await store.commit([creation("b")])
    store.close()
    put(path, content_of(path)[:-1])
    store = LocalStore(path)
    await store.commit([creation("c")])
    store.close()
    assert set((await reloaded(path)).topics) == {"a", "c"}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_disk")
async def test_damage_before_the_last_line_is_an_error(path: Path) -> None:
    """The lines after it were acknowledged: starting without them would lose changes."""
    store = LocalStore(path)
    for name in ("a", "b", "c"):
        await store.commit([creation(name)])
    store.close()
    whole = content_of(path)
    last = whole.rindex(b"\n", 0, -1) + 1
    for at in range(last):
        put(path, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StoreError, match="cannot be read"):
            LocalStore(path)


STEPS = ("write", "fsync", "replace", "fsync directory")


class CrashingOs:
    """The system calls that write a snapshot; number `at` ends the process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.steps: list[str] = []
        self._at = at
        real_fsync, real_replace, real_write = Files.fsync, Path.replace, os.write

        def fsync(descriptor: int) -> None:
            self._step("fsync" if "replace" not in self.steps else "fsync directory")
            real_fsync(descriptor)

        def replace(path: Path, target: Path) -> Path:
            self._step("replace")
            return real_replace(path, target)

        def write(descriptor: int, content: memoryview) -> int:
            if "write" not in self.steps:
                real_write(descriptor, content[:17])  # the disk has some of it
                self._step("write")
                return 17
            return real_write(descriptor, content)

        monkeypatch.setattr(Files, "fsync", staticmethod(fsync))
        monkeypatch.setattr(Path, "replace", replace)
        monkeypatch.setattr(change_log, "os", SimpleNamespace(**{**vars(os), "write": write}))

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if len(self.steps) - 1 == self._at:
            raise Crash


@pytest.mark.parametrize("at", range(len(STEPS)))
async def test_crash_during_a_snapshot_leaves_the_old_or_the_new_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    store = LocalStore(path)
    image = await store.commit([creation("old")])
    with monkeypatch.context() as patch:
        patch.setattr(change_log, "LOG_BYTES_MIN", 0)
        crashing = CrashingOs(patch, at)
        with pytest.raises(Crash):
            await store.commit([creation("new")])
    assert crashing.steps == list(STEPS[: at + 1])
    after = await reloaded(path)
    new_is_in_place = at > STEPS.index("replace")
    assert set(after.topics) == ({"old", "new"} if new_is_in_place else {"old"})
    assert after.cluster_id == image.cluster_id


@pytest.mark.usefixtures("quick_disk")
async def test_log_larger_than_its_snapshot_is_replaced_by_a_snapshot(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file size depends on the present metadata, not on the number of changes ever made."""
    monkeypatch.setattr(change_log, "LOG_BYTES_MIN", 2000)
    store = LocalStore(path)
    sizes = []
    for _ in range(100):
        await store.commit([creation("a")])
        image = await store.commit([DeleteTopic("a", creation("a").topic.id)])
        sizes.append(size_of(path))
    store.close()
    assert max(sizes) < 3000
    assert sum(after < before for before, after in pairwise(sizes)) >= 5
    assert await reloaded(path) == image


@pytest.mark.slow
@pytest.mark.usefixtures("quick_disk")
async def test_each_new_topic_costs_the_same_number_of_bytes(path: Path) -> None:
    """The 2,000th topic costs as many bytes and calls as the first."""
    store = LocalStore(path)
    await store.commit([creation("t00000")])
    appended = []
    for number in range(1, 2001):
        before = size_of(path)
        await store.commit([creation(f"t{number:05}")])
        appended.append(size_of(path) - before)
    store.close()
    assert max(appended) - min(appended) <= 3, "but for the digits of the version"
    assert len((await reloaded(path)).topics) == 2001


async def test_concurrent_commits_share_one_write(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(path)
    groups = []
    append = ChangeLog._append

    def counted(log: ChangeLog, line: bytes) -> None:
        groups.append(len(json.loads(line[9:])["changes"]))
        append(log, line)

    monkeypatch.setattr(ChangeLog, "_append", counted)
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(store.commit, [creation(f"t{number}")])
    assert sum(groups) == 50
    assert len(groups) <= 2
    store.close()
    assert len((await reloaded(path)).topics) == 50


async def test_steps_that_prepare_an_image_come_before_its_watchers(path: Path) -> None:
    """The steps are those of one image after the other; a thread runs what they yield."""
    store, seen = LocalStore(path), list[str]()

    def prepare(image: ClusterImage, delta: ClusterDelta) -> Iterator[Callable[[], None] | None]:
        seen.append(f"0 of {', '.join(delta.topics)}")
        yield None

        def block() -> None:
            assert threading.current_thread() is not threading.main_thread()
            seen.append(f"1 of {', '.join(delta.topics)}")

        yield block

    store.prepare = prepare
    store.watch(lambda image, delta: seen.append(f"all of {', '.join(delta.topics)}"))
    async with trio.open_nursery() as nursery:
        for name in "ab":
            nursery.start_soon(store.commit, [creation(name)])
    assert {tuple(seen[:3]), tuple(seen[3:])} == {
        (f"0 of {name}", f"1 of {name}", f"all of {name}") for name in "ab"
    }
    store.close()


async def test_commit_of_a_cancelled_caller_is_made(path: Path) -> None:
    """Later commits build on it."""
    store = LocalStore(path)
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.commit([creation("a")])
    await store.commit([creation("b")])
    store.close()
    assert set((await reloaded(path)).topics) == {"a", "b"}


async def test_closing_the_store_completes_a_running_write(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopping broker closes its store, while a thread may be writing a commit."""
    store = LocalStore(path)
    begun, go_on = threading.Event(), threading.Event()
    append = ChangeLog._append

    def slow(log: ChangeLog, value: bytes) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        append(log, value)

    monkeypatch.setattr(ChangeLog, "_append", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.commit, [creation("a")])
        await trio.to_thread.run_sync(begun.wait)
        nursery.start_soon(store.commit, [creation("b")])
        await trio.testing.wait_all_tasks_blocked()
        store.close()
        go_on.set()
    with pytest.raises(StoreError, match="closed"):
        await store.commit([creation("c")])
    assert sorted((await reloaded(path)).topics) == ["a", "b"]


@pytest.mark.parametrize(("place", "call"), [(os, "write"), (Files, "fsync")])
async def test_failed_write_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, place: object, call: str
) -> None:
    store = LocalStore(path)
    before = await store.commit([creation("old")])
    seen: list[ClusterImage] = []
    failures: list[OSError] = []
    store.watch(lambda image, delta: seen.append(image))
    store.on_failure = failures.append

    def full(descriptor: int, content: memoryview | None = None) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def refused(name: str) -> None:
        with pytest.raises(StoreError, match="No space left on device"):
            await store.commit([creation(name)])

    with monkeypatch.context() as patch:
        patch.setattr(place, call, staticmethod(full))
        async with trio.open_nursery() as nursery:
            for name in ("a", "b", "c"):
                nursery.start_soon(refused, name)
        with pytest.raises(StoreError):
            await store.allocate_producer_ids(10)
    assert await store.load() is before
    assert seen == []
    assert failures
    assert os.listdir(path.parent) == [path.name], "no half file stays"
    assert await reloaded(path) == before
    assert await store.allocate_producer_ids(2) == range(FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 2)
    after = await store.commit([creation("a")])
    store.close()
    assert await reloaded(path) == after


async def test_short_write_is_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(path)
    short = {**vars(os), "write": lambda file, content: os.write(file, content[:7])}
    monkeypatch.setattr(change_log, "os", SimpleNamespace(**short))
    image = await store.commit([creation("a")])
    store.close()
    monkeypatch.undo()
    assert await reloaded(path) == image


async def test_new_store_takes_a_given_cluster_id(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metadata.log"
    store = LocalStore(path, cluster_id="AAAAAAAAQACEAgAAAAAAAA")
    assert (await store.load()).cluster_id == "AAAAAAAAQACEAgAAAAAAAA"
    assert (await reloaded(path)).cluster_id == "AAAAAAAAQACEAgAAAAAAAA"


def line(value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"%08x %s\n" % (crc32c(body), body)


HEADER = {"format": 2, "cluster_id": "c", "version": 3, "next_producer_id": 0}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "its first line is damaged"),
        (b"\xff\xfe", "its first line is damaged"),
        (line([]), "its first line is damaged"),
        (line({"format": 3}), "has format 3, written by another version"),
        (line({"format": 2}), "line 2: KeyError"),
        (line(HEADER | {"snapshot_records": 1}), "ends before its snapshot does"),
        (
            line(HEADER | {"snapshot_records": 0}) + line({"changes": [{"kind": "new"}]}),
            "unknown kind of metadata change 'new'.* another version of kwire wrote it",
        ),
        (
            line(HEADER | {"snapshot_records": 0})
            + line({"changes": [{"kind": "delete_topic", "name": "a", "id": "A" * 22}]}),
            "line 2: Conflict.*topic a with id .* does not exist",
        ),
    ],
)
def test_file_of_unknown_content_is_an_error_and_stays_unchanged(
    path: Path, content: bytes, sentence: str
) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=sentence):
        LocalStore(path)
    assert path.read_bytes() == content


def test_unreadable_file_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read the metadata"):
        LocalStore(tmp_path)


# -- the file of earlier versions

OLD = {
    "format": 1,
    "version": 7,
    "cluster_id": "c",
    "next_producer_id": 3000,
    "topics": {
        "a": {
            "id": "YWFhYWFhYWFhYWFhYWFhYQ",
            "partitions": [[1, 2, 3, [1, 2], [1]], [-1, 0, 0, [1], []]],
        }
    },
    "configs": [[2, "a", {"retention.ms": "1"}], [2, "gone", {"x": "y"}], [4, "", {"z": "1"}]],
}


async def test_file_of_an_earlier_version_is_converted_once(path: Path) -> None:
    old = path.with_name("kwire-metadata.json")
    old.write_text(json.dumps(OLD))
    image = await reloaded(path)
    partitions = (
        PartitionImage(1, 2, 3, (1, 2), (1,)),
        PartitionImage(-1, 0, 0, (1,), ()),
    )
    assert image.topics == {"a": TopicImage("a", b"a" * 16, partitions)}
    assert (image.version, image.cluster_id, image.next_producer_id) == (7, "c", 3000)
    assert image.configs_of(4, "") == {"z": "1"}
    assert sorted(os.listdir(path.parent)) == ["kwire-metadata.json.converted", path.name]
    again = await reloaded(path)
    assert again.configs == apply_all(again, []).configs
    assert again.configs_of(2, "a") == {"retention.ms": "1"}
    assert (again.topics, again.version) == (image.topics, 7)


async def test_kill_after_the_conversion_keeps_the_converted_file(path: Path) -> None:
    old = path.with_name("kwire-metadata.json")
    old.write_text(json.dumps(OLD))
    store = LocalStore(path)
    image = await store.commit([creation("b")])
    store.close()
    old.with_name(old.name + ".converted").rename(old)
    assert (await reloaded(path)).topics == image.topics
    assert not old.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"format": 1}', b'{"format": 9}', b'{"format":1,"topics":[]}'],
)
def test_file_of_an_earlier_version_with_unknown_content_stays_unchanged(
    path: Path, content: bytes
) -> None:
    old = path.with_name("kwire-metadata.json")
    old.write_bytes(content)
    with pytest.raises(StoreError, match=r"kwire-metadata\.json is damaged"):
        LocalStore(path)
    assert old.read_bytes() == content
    assert not path.exists()
