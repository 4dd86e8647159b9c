"""Names of folders of partitions that are deleted, copied or set aside."""

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
def test_name_of_a_folder_set_aside_fits_the_file_system(
    tmp_path: Path, name: Callable[[str, int], str]
) -> None:
    """The topic's name may have any length. The name is not that of a served partition."""
    for length in (1, 200, 209, 210, 249):
        aside = name("t" * length, 99_999)
        (tmp_path / aside).mkdir()
        assert aside.startswith("t" * min(length, 200) + ("-99999." if length <= 200 else ""))
        assert parse_partition_folder(aside) is None


@pytest.mark.parametrize(
    "topic", ["t", "a-b", "a.b", "a-1", "-", "..", "a.b-future", "x.-future-0"]
)
def test_folder_names_are_parsed_as_written(topic: str) -> None:
    served, copied = partition_folder(topic, 3), future_folder(topic, 3, "0f" * 16)
    assert parse_partition_folder(served) == (topic, 3)
    assert parse_future_folder(copied) == ((topic, 3), "0f" * 16)
    assert parse_partition_folder(copied) is None
    assert parse_future_folder(served) is None


@pytest.mark.parametrize("name", ["t", "-3", "t-", "t-x", "t-1x", "t-\u0661", "t--"])
def test_folder_name_that_is_no_partition_is_not_parsed(name: str) -> None:
    assert parse_partition_folder(name) is None
    assert parse_future_folder(f"{name}.{'0f' * 16}-future") is None
