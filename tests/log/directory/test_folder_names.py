"""What a partition's folder is called once it is not served any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.log.directory.log_dir import (
    delete_folder,
    future_folder,
    parse_future_folder,
    parse_partition_folder,
    partition_folder,
    stray_folder,
)


@pytest.mark.parametrize("name", [delete_folder, stray_folder])
def test_what_is_set_aside_has_a_name_that_a_disk_takes(
    tmp_path: Path, name: Callable[[str, int], str]
) -> None:
    """However long the topic's is; and it is not taken for a partition."""
    for length in (1, 200, 209, 210, 249):
        aside = name("t" * length, 99_999)
        (tmp_path / aside).mkdir()
        assert aside.startswith("t" * min(length, 200) + ("-99999." if length <= 200 else ""))
        assert parse_partition_folder(aside) is None


@pytest.mark.parametrize(
    "topic", ["t", "a-b", "a.b", "a-1", "-", "..", "a.b-future", "x.-future-0"]
)
def test_names_say_which_partition_it_is(topic: str) -> None:
    served, copied = partition_folder(topic, 3), future_folder(topic, 3, "0f" * 16)
    assert parse_partition_folder(served) == (topic, 3)
    assert parse_future_folder(copied) == ((topic, 3), "0f" * 16)
    assert parse_partition_folder(copied) is None
    assert parse_future_folder(served) is None


@pytest.mark.parametrize("name", ["t", "-3", "t-", "t-x", "t-1x", "t-\u0661", "t--"])
def test_what_is_no_partition(name: str) -> None:
    assert parse_partition_folder(name) is None
    assert parse_future_folder(f"{name}.{'0f' * 16}-future") is None
