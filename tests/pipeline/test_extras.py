"""What whoever lacks PySpark is told to type."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from kwire.pipeline.errors import SparkMissing
from kwire.pipeline.extras import how_to_install, named
from kwire.pipeline.presence import must_have
from kwire.pipeline.session import session
from kwire.pipeline.source import Kafka, Topics

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_is_installed_from_its_folder() -> None:
    command = shlex.split(how_to_install("spark"))
    assert command == [sys.executable, "-m", "pip", "install", "-e", f"{ROOT}[spark]"]


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (["pyspark"], "PySpark is not installed: "),
        (["confluent_kafka"], "confluent-kafka is not installed: "),
        (["pyspark", "confluent_kafka"], "PySpark and confluent-kafka are not installed: "),
    ],
)
def test_a_job_says_what_it_lacks_before_anything(
    lacking: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in lacking:
        monkeypatch.setitem(sys.modules, module, None)
    nobody = Kafka("127.0.0.1:1")
    with pytest.raises(SparkMissing, match=f"^{said}.* -m pip install "):
        must_have(nobody, Topics(names=("t",)))
    with pytest.raises(SparkMissing, match=said), session("t"):
        pass


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
