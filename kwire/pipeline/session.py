"""The Spark session of a job: with the Kafka connector of the Spark that is installed."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kwire.pipeline import jars, java
from kwire.pipeline.errors import PipelineError, sentence_of
from kwire.pipeline.extras import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "spark-sql-kafka-0-10"
AVRO = "spark-avro"
JARS = "spark.jars"
PACKAGES = f"{JARS}.packages"
LOCAL = "local[*]"

DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "30s",  # else stop() waits for a stuck batch for ever
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "true",
}
LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}
"""On one machine alone: nothing listens to the world, and a shuffle has no use for 200 parts."""


@dataclass(frozen=True)
class SparkOptions:
    """How a job runs on Spark.

    master     Where; None is what spark-submit or SPARK_MASTER says, else all cores of here.
    settings   Spark's own settings by name; they win over every default of ours.
    log        The file that takes what Spark and its dependency resolution print; None: a
               temporary one, which is kept, and named, only when the job fails.
    modules    More modules of Spark by their artifacts' names, as AVRO.
    """

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    modules: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The master that is used."""
        return (
            self.master
            or self.settings.get("spark.master")
            or os.environ.get("SPARK_MASTER")
            or LOCAL
        )


@contextmanager
def session(name: str, options: SparkOptions | None = None) -> Iterator[SparkSession]:
    """A Spark session with the Kafka connector, stopped at the end.

    Where the process has a session it is that one, and it is left running.
    Raises SparkMissing without PySpark or Java, PipelineError when Spark does not start.
    """
    options = options or SparkOptions()
    require_spark()
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    java.require(_installed_version())
    if options.where.startswith("local"):  # its Python workers find what this process finds
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _log(options.log) as log:
        spark = _started(name, options, log)
        try:
            yield spark
        except Exception as error:
            if _has_java(spark):
                raise
            raise PipelineError(
                f"Spark's Java process ended amid the job ({log} has more)"
            ) from error
        finally:
            if _has_java(spark):
                spark.stop()


def _started(name: str, options: SparkOptions, log: Path) -> SparkSession:
    """Start it; where Spark's resolver has to look for the connector, one process at a time."""
    asked = settings_of(options)
    settings = _found_again(asked, options.where)
    if PACKAGES not in settings:
        return _start(name, options.where, settings, log)
    with jars.resolving() if options.where.startswith("local") else nullcontext():
        settings = _found_again(asked, options.where)  # who was before may have found it
        spark = _start(name, options.where, settings, log)
        if PACKAGES in settings:
            found = spark.sparkContext.getConf().get(JARS) or ""
            jars.note(settings[PACKAGES].split(","), found)
    return spark


def _start(name: str, where: str, settings: Mapping[str, str], log: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"kwire pipeline: {name}").master(where)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _stderr_to(log):
            return builder.getOrCreate()
    except Exception as error:
        raise PipelineError(
            f"Spark does not start on {where}: {sentence_of(error)} ({log} has more)"
        ) from error


def _has_java(spark: SparkSession) -> bool:
    """Whether the process that Spark runs in is there; it may be killed, or out of memory."""
    gateway: Any = spark.sparkContext._gateway
    process = getattr(gateway, "proc", None)  # none where Java began, with spark-submit
    return process is None or process.poll() is None


def settings_of(options: SparkOptions) -> dict[str, str]:
    """All settings of a session: ours, then the caller's, and the modules among the packages."""
    local = LOCAL_DEFAULTS if options.where.startswith("local") else {}
    settings = DEFAULTS | local | dict(options.settings)
    given = [name for name in settings.get(PACKAGES, "").split(",") if name]
    for artifact in (CONNECTOR, *options.modules):
        if not any(f":{artifact}_" in name for name in given):
            given.append(package(artifact))
    return settings | {PACKAGES: ",".join(given)}


def _found_again(settings: Mapping[str, str], where: str) -> Mapping[str, str]:
    """The settings with the jars that their packages came to before, where these are here.

    What else is said of jars (repositories, exclusions, more of them) is for Spark's resolver.
    """
    said = {name for name in settings if name == JARS or name.startswith(f"{JARS}.")}
    known = jars.known(settings[PACKAGES].split(",")) if said == {PACKAGES} else None
    if known is None or not where.startswith("local"):
        return settings
    rest = {name: value for name, value in settings.items() if name != PACKAGES}
    return rest | {JARS: ",".join(known)}


def package(artifact: str) -> str:
    """The Maven coordinates of a module of the Spark that is installed."""
    return f"org.apache.spark:{artifact}_{_scala()}:{_installed_version()}"


def _installed_version() -> str:
    import pyspark

    released = re.match(r"\d+\.\d+\.\d+", pyspark.__version__)
    return released[0] if released else str(pyspark.__version__)


def _scala() -> str:
    """The Scala that this Spark was built with, by the library it brings: "2.13"."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    for jar in home.glob("jars/scala-library-*.jar"):
        if found := re.match(r"scala-library-(\d+\.\d+)\.", jar.name):
            return found[1]
    return "2.13"


@contextmanager
def _log(given: Path | None) -> Iterator[Path]:
    """The file for Spark's messages; a temporary one goes when all went well."""
    if given is not None:
        given.parent.mkdir(parents=True, exist_ok=True)
        yield given
        return
    handle, name = tempfile.mkstemp(prefix="kwire-pipeline-", suffix=".log")
    os.close(handle)
    yield Path(name)
    Path(name).unlink()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Point the process' stderr to a file: Spark's Java process inherits it from here."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
