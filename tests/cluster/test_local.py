"""The file of a single node's metadata: whole after any crash, and refused if it is not its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kwire.cluster import local
from kwire.cluster.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.local import LocalStore, random_uuid, uuid_bytes, uuid_text
from kwire.cluster.store import StoreError


class Crash(BaseException):
    """The process ends here."""


def with_topic(image: ClusterImage, name: str) -> ClusterImage:
    state = PartitionImage(1, 0, 0, (1,), (1,))
    return image.with_topics([TopicImage(name, random_uuid(), (state,))])


STEPS = ("write", "fsync", "replace", "fsync directory")


class CrashingOs:
    """The system calls of a replacement, of which the `at`th never happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.steps: list[str] = []
        self._at = at
        real_fsync, real_replace, real_open = os.fsync, Path.replace, Path.open

        def fsync(descriptor: int) -> None:
            self._step("fsync" if "replace" not in self.steps else "fsync directory")
            real_fsync(descriptor)

        def replace(path: Path, target: Path) -> Path:
            self._step("replace")
            return real_replace(path, target)

        def opened(path: Path, mode: str = "r") -> object:
            file = real_open(path, mode)
            self.steps.append("write")
            if len(self.steps) - 1 == at:
                file.write(b'{"format": 1, "vers')  # the disk has half of it
                file.close()
                raise Crash
            return file

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Path, "replace", replace)
        monkeypatch.setattr(Path, "open", opened)

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if len(self.steps) - 1 == self._at:
            raise Crash


@pytest.mark.parametrize("at", range(len(STEPS)))
async def test_a_crash_leaves_the_old_file_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    path = tmp_path / "metadata.json"
    store = LocalStore(path)
    image = await store.commit(0, with_topic(await store.load(), "old"))
    wanted = with_topic(image, "new")
    with monkeypatch.context() as patch:
        crashing = CrashingOs(patch, at)
        with pytest.raises(Crash):
            await store.commit(image.version, wanted)
    assert crashing.steps == list(STEPS[: at + 1])
    after = await LocalStore(path).load()
    new_is_in_place = at > STEPS.index("replace")
    assert set(after.topics) == ({"old", "new"} if new_is_in_place else {"old"})
    assert after.cluster_id == image.cluster_id


async def test_a_disk_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "metadata.json")
    seen: list[ClusterImage] = []
    store.watch(seen.append)
    before = await store.load()

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(local, "replace_file", full)
        with pytest.raises(StoreError, match="No space left on device"):
            await store.commit(before.version, with_topic(before, "a"))
        with pytest.raises(StoreError):
            await store.allocate_producer_ids(10)
    assert await store.load() is before
    assert seen == []
    assert await store.allocate_producer_ids(2) == range(2)


def test_a_failed_write_leaves_no_half_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    local.replace_file(path, b"old")

    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="Input/output"):
            local.replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_store_can_be_of_a_known_cluster(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metadata.json"
    LocalStore(path, cluster_id="AAAAAAAAQACEAgAAAAAAAA")
    assert json.loads(path.read_text())["cluster_id"] == "AAAAAAAAQACEAgAAAAAAAA"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is damaged"),
        (b"{", "is damaged"),
        (b"[]", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b'{"format": 1}', "is damaged"),
        (b'{"format": 2}', "has format 2, written by another version"),
        (
            b'{"format": 1, "version": 1, "cluster_id": "c", "next_producer_id": 0, "configs": [],'
            b' "topics": {"a": {"id": "short", "partitions": []}}}',
            "is damaged",
        ),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_alone(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "metadata.json"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=sentence):
        LocalStore(path)
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read the metadata"):
        LocalStore(tmp_path)


def test_uuids_are_kafkas() -> None:
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    for _ in range(200):
        made = random_uuid()
        text = uuid_text(made)
        assert not text.startswith("-")
        assert uuid_bytes(text) == made
    with pytest.raises(ValueError, match="base64"):
        uuid_bytes("x")
