"""What whoever lacks PySpark is told to type."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from kwire.pipeline.extras import how_to_install, named

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_is_installed_from_its_folder() -> None:
    command = shlex.split(how_to_install("spark"))
    assert command == [sys.executable, "-m", "pip", "install", "-e", f"{ROOT}[spark]"]


@pytest.mark.parametrize(
    ("direct_url", "name"),
    [
        ('{"url": "file:///a/my%20kwire", "dir_info": {}}', "/a/my kwire[spark]"),
        ('{"url": "file:///a/kwire-1-py3-none-any.whl"}', "/a/kwire-1-py3-none-any.whl[spark]"),
        ('{"url": "https://h/kwire.whl"}', "kwire[spark] @ https://h/kwire.whl"),
        (None, "kwire[spark]"),
    ],
)
def test_from_where_it_came(direct_url: str | None, name: str) -> None:
    assert named("spark", direct_url) == [name]
