"""Jobs without PySpark or confluent-kafka say how to install them."""

from __future__ import annotations

import sys

import pytest

from kwire.pipeline.errors import SparkMissing
from kwire.pipeline.presence import must_have
from kwire.pipeline.session import session
from kwire.pipeline.source import Kafka, Topics


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (["pyspark"], "PySpark is not installed: "),
        (["confluent_kafka"], "confluent-kafka is not installed: "),
        (["pyspark", "confluent_kafka"], "PySpark and confluent-kafka are not installed: "),
    ],
)
def test_job_with_missing_modules_says_how_to_install_them(
    lacking: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in lacking:
        monkeypatch.setitem(sys.modules, module, None)
    nobody = Kafka("127.0.0.1:1")
    with pytest.raises(SparkMissing, match=f"^{said}.* -m pip install "):
        must_have(nobody, Topics(names=("t",)))
    with pytest.raises(SparkMissing, match=said), session("t"):
        pass
