"""What a partition's folder is called once it is not served any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.log.directory.log_dir import delete_folder, parse_partition_folder, stray_folder


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
