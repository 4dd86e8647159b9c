"""Makes the Spark session of a job, with the Kafka connector for the installed Spark."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kwire.pipeline import class_data, jars, java
from kwire.pipeline.errors import PipelineError, sentence_of
from kwire.pipeline.extras import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "spark-sql-kafka-0-10"
AVRO = "spark-avro"
JARS = "spark.jars"
PACKAGES = f"{JARS}.packages"
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Java options that come before the user's own, those of OWN_JAVA_OPTIONS."""
OWN_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
"""Variables with options of Java, which come before those of Spark's settings."""
CLASS_PATH = "spark.driver.extraClassPath"
DRIVER_MEMORY = "spark.driver.memory"
SMALL_HEAP = ("-XX:+UseSerialGC", "-XX:MetaspaceSize=256m")
"""The collector that takes the least time of the processor for Spark's default heap of 1 GB, and
room for Spark's classes, without which it collects the whole heap as classes come."""
ONE_COMPILER = "-XX:TieredStopAtLevel=1"
"""Turns off Java's optimizing compiler, and the counting of calls for it."""
FEW_RECORDS = 100_000
"""A job of at most so many records runs without Java's optimizing compiler.  A query of 100,000
then takes 26 instead of 36 s of the processor, and one of 200,000 would take 40 instead of 43: see
docs/decisions/0037-spark-starts-with-what-a-job-needs.md."""
LAUNCHER_OPTIONS = f"{ONE_COMPILER} -XX:+UseSerialGC"
"""Options of the short Java process that writes the command of Spark's own."""
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
"""Defaults for a local master: no port is open to other machines, and a shuffle uses fewer
partitions than Spark's default of 200."""


@dataclass(frozen=True)
class SparkOptions:
    """How a job runs on Spark.

    master     Spark's master; None: that of spark-submit or SPARK_MASTER, else all local cores.
    settings   Spark settings by name; they override kwire's defaults.
    log        File for the output of Spark and its dependency resolution; None: a temporary file,
               which is kept and named in the error if the job fails.
    modules    Artifact names of further Spark modules, such as AVRO.
    records    The most records that the job reads; None: unknown.
    """

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    modules: tuple[str, ...] = ()
    records: int | None = None

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
    """A Spark session with the Kafka connector, stopped at the end of the block.

    If the process already has a session, that one is used and not stopped.
    Raises SparkMissing without PySpark or Java, PipelineError if Spark does not start.
    """
    options = options or SparkOptions()
    require_spark()
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    found = java.require(_installed_version())
    if options.where.startswith("local"):  # the Python workers need this process's packages
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER_OPTIONS)
    with _log(options.log) as log:
        spark = _started(name, options, found, log)
        try:
            yield spark
            class_data.job_ended_well()
        except Exception as error:
            if _has_java(spark):
                raise
            raise PipelineError(
                f"Spark's Java process ended amid the job ({log} has more)"
            ) from error
        finally:
            if _has_java(spark):
                spark.stop()


def _starting_sooner(
    settings: Mapping[str, str], found: java.Java, records: int | None = None
) -> Mapping[str, str]:
    """The settings of a local session with options of Java with which it starts sooner.

    `records` is the most records that the job reads, or None if that is unknown.

    They are Spark's defaults, so those in spark.driver.extraJavaOptions come after them.
    """
    if JAVA_OPTIONS in settings:
        return settings
    few = records is not None and records <= FEW_RECORDS
    chosen = (ONE_COMPILER,) if few and not _has_own_java_options(settings) else found.options
    if PACKAGES not in settings or not _notes_jars(settings):
        class_path = settings.get(CLASS_PATH, "")
        chosen += class_data.java_options(found, _spark_home(), class_path)
    if DRIVER_MEMORY not in settings:
        chosen += SMALL_HEAP
    quoted = " ".join(f'"{each}"' for each in chosen)
    return {**settings, JAVA_OPTIONS: quoted}


def _started(name: str, options: SparkOptions, found: java.Java, log: Path) -> SparkSession:
    """Start the session; only one process at a time may run Spark's resolver."""
    where, configured = options.where, settings_of(options)
    if not where.startswith("local"):
        return _start(name, where, configured, log)
    settings = _found_again(configured, where)
    if PACKAGES not in settings:
        return _start(name, where, _starting_sooner(settings, found, options.records), log)
    with jars.resolving():
        # The process that held the lock before may have resolved the jars.
        settings = _starting_sooner(_found_again(configured, where), found, options.records)
        spark = _start(name, where, settings, log)
        if PACKAGES in settings:
            resolved = spark.sparkContext.getConf().get(JARS) or ""
            jars.note(settings[PACKAGES].split(","), resolved)
    return spark


def _start(name: str, where: str, settings: Mapping[str, str], log: Path) -> SparkSession:
    """Starts Spark and writes the messages of its start to `log`.  Raises PipelineError if it does
    not start."""
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
    """Whether Spark's Java process runs; it may have been killed, or be out of memory."""
    gateway: Any = spark.sparkContext._gateway
    process = getattr(gateway, "proc", None)  # None if spark-submit started this process
    return process is None or process.poll() is None


def settings_of(options: SparkOptions) -> dict[str, str]:
    """All settings of a session: defaults, overridden by the caller's, and module packages."""
    local = LOCAL_DEFAULTS if options.where.startswith("local") else {}
    settings = DEFAULTS | local | dict(options.settings)
    given = [name for name in settings.get(PACKAGES, "").split(",") if name]
    for artifact in (CONNECTOR, *options.modules):
        if not any(f":{artifact}_" in name for name in given):
            given.append(package(artifact))
    return settings | {PACKAGES: ",".join(given)}


def _found_again(settings: Mapping[str, str], where: str) -> Mapping[str, str]:
    """The settings of a local session with the noted jars instead of the packages, if they exist.

    Java reads the jars on its class path sooner than those that it gets from Spark: they are in the
    class data archive, and Spark copies none of them.
    """
    known = jars.known(settings[PACKAGES].split(",")) if _notes_jars(settings) else None
    if known is None:
        return settings
    rest = {name: value for name, value in settings.items() if name != PACKAGES}
    if _has_own_class_path(settings, where):
        return rest | {CLASS_PATH: os.pathsep.join(jars.beside(known, _spark_home() / "jars"))}
    return rest | {JARS: ",".join(known)}


def _notes_jars(settings: Mapping[str, str]) -> bool:
    """Whether the resolved jars are noted for later starts.

    With other settings about jars (repositories, exclusions, further jars), Spark's resolver runs
    in each start.
    """
    return {name for name in settings if name == JARS or name.startswith(f"{JARS}.")} == {PACKAGES}


def _has_own_class_path(settings: Mapping[str, str], where: str) -> bool:
    """Whether kwire may set the class path: one Java process does all the work, it does not run
    yet, and the user has no class path of their own."""
    from pyspark import SparkContext

    runs = SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ
    is_one = where == "local" or where.startswith("local[")
    return is_one and not runs and not _is_set(CLASS_PATH, settings)


def _has_own_java_options(settings: Mapping[str, str]) -> bool:
    """Whether the user has Java options of their own, which may be about its compilers."""
    return any(map(os.environ.get, JAVA_VARIABLES)) or _is_set(OWN_JAVA_OPTIONS, settings)


def _is_set(name: str, settings: Mapping[str, str]) -> bool:
    """Whether the user has this setting: in `settings`, or in Spark's file of defaults, which
    `settings` would override."""
    if name in settings:
        return True
    folder = Path(os.environ.get("SPARK_CONF_DIR") or _spark_home() / "conf")
    try:
        return name in (folder / "spark-defaults.conf").read_text()
    except OSError:
        return False


def package(artifact: str) -> str:
    """The Maven coordinates of a module of the installed Spark."""
    return f"org.apache.spark:{artifact}_{_scala()}:{_installed_version()}"


def _installed_version() -> str:
    """Return the version of PySpark without a suffix such as `.dev0`."""
    import pyspark

    released = re.match(r"\d+\.\d+\.\d+", pyspark.__version__)
    return released[0] if released else str(pyspark.__version__)


def _scala() -> str:
    """The Scala version of the installed Spark, such as "2.13", from its scala-library jar."""
    for jar in _spark_home().glob("jars/scala-library-*.jar"):
        if found := re.match(r"scala-library-(\d+\.\d+)\.", jar.name):
            return found[1]
    return "2.13"


def _spark_home() -> Path:
    """The folder of the installed Spark."""
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


@contextmanager
def _log(given: Path | None) -> Iterator[Path]:
    """The file for Spark's output; a temporary one is removed unless the block raises."""
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
    """Redirect this process's stderr to a file; Spark's Java process inherits it."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
