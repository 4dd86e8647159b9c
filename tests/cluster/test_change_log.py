"""Copies of the metadata file, and the cluster id in its first line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.stores.change_log import ChangeLog, DamagedLog, cluster_id_in, write_copy

TOPICS = [
    TopicImage(f"t{number}", bytes([number]) * 16, (PartitionImage(1, 0, 0, (1,), (1,)),))
    for number in range(1, 4)
]
IMAGE = ClusterImage("cluster", next_producer_id=1000).with_topics(TOPICS).with_version(7)


def test_copy_of_an_image_can_be_opened_and_replaces_an_older_file(tmp_path: Path) -> None:
    path = tmp_path / "metadata"
    path.write_bytes(b"x" * 100_000)
    write_copy(path, IMAGE)
    log, image = ChangeLog.open_at(path)
    log.close()
    log.close()  # closing twice is no error
    assert image == IMAGE
    assert cluster_id_in(path) == "cluster"


@pytest.mark.parametrize(
    "content", [b"", b"00000000 {}\n", b'{"cluster_id": "c"}\n', b"\xff\xfe\n"]
)
def test_damaged_first_line_has_no_cluster_id(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "metadata"
    path.write_bytes(content)
    with pytest.raises(DamagedLog, match="its first line is damaged"):
        cluster_id_in(path)


def test_later_damage_does_not_hide_the_cluster_id(tmp_path: Path) -> None:
    path = tmp_path / "metadata"
    write_copy(path, IMAGE)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + b"damaged")
    assert cluster_id_in(path) == "cluster"
    with pytest.raises(DamagedLog):
        ChangeLog.open_at(path)


def test_cluster_id_that_is_no_text_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "metadata"
    write_copy(path, ClusterImage(7))  # type: ignore[arg-type]  # as another program may write it
    with pytest.raises(DamagedLog, match="its first line is damaged"):
        cluster_id_in(path)
