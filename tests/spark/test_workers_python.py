"""Spark's Python workers run the driver's Python, not `python3` on PATH."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire import pipeline
from kwire.conformance import spark as judge
from kwire.pipeline.errors import failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = Callable[[Path], AbstractContextManager["SparkSession"]]


def of_a_job(log: Path) -> AbstractContextManager[SparkSession]:
    return pipeline.session("test", pipeline.SparkOptions("local[1]", log=log))


def of_the_judge(log: Path) -> AbstractContextManager[SparkSession]:
    return judge.session(log, {})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("session", [of_a_job, of_the_judge])
@pytest.mark.parametrize("named", [None, "/opt/python/bin/python3"])
def test_session_uses_this_python_unless_another_is_set(
    session: Session, named: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The test checks the variable when Spark would start, because PySpark reads it then."""
    from pyspark.sql import SparkSession

    def start(_: SparkSession.Builder) -> SparkSession:
        raise KeyboardInterrupt

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", start)
    monkeypatch.setenv("PYSPARK_PYTHON", named or "")
    if named is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    with pytest.raises(KeyboardInterrupt), session(tmp_path / "spark.log"):
        pass
    assert os.environ["PYSPARK_PYTHON"] == (named or sys.executable)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark's own
def test_workers_run_the_drivers_python(spark: SparkSession) -> None:
    [workers] = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert workers == sys.executable


MISSING = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
ModuleNotFoundError: No module named 'pyarrow'
"""


def test_missing_package_of_workers_is_reported_with_advice() -> None:
    """The advice also covers a session that the caller created."""
    message = str(failure(RuntimeError(MISSING)))
    assert message.startswith("the Python of Spark's workers has no pyarrow: ")
    assert "PYSPARK_PYTHON" in message
