"""Where Apache Kafka is on this machine, for the controllers of `kwire cluster up --kraft`.

It is in the folder that the user names, or in an installed Kafka, or in the cache into which Maven
downloads it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.testing.controllers import KafkaProgram

VARIABLE = "KWIRE_APACHE_KAFKA_LIBS"
HOME_VARIABLE = "KAFKA_HOME"
START_SCRIPTS = ("kafka-server-start.sh", "kafka-server-start")
SERVER_JAR = re.compile(r"kafka_2\.\d+-(\d+)\.(\d+)\.\d+\S*\.jar")
OLDEST = (4, 0)
"""The first release without ZooKeeper; the newest one that is tested is the reference's."""


class KafkaMissing(RuntimeError):
    """Java or Apache Kafka is missing or too old, or could not be downloaded.

    The message says what to install or to name.
    """


def find_kafka(given: str | None) -> KafkaProgram:
    """Apache Kafka in the folder `given`, or as it is installed, or downloaded if nothing is.

    Raises KafkaMissing.
    """
    from kwire.conformance import class_archive, java
    from kwire.conformance.apache_kafka import QUICK_JVM
    from kwire.testing.controllers import KafkaProgram

    try:
        executable = java.executable()
    except java.JavaMissing as error:
        raise KafkaMissing(f"Apache Kafka's controllers need Java: {error}") from error
    libs = Path(given) if given else _installed() or _downloaded()
    release = _release(libs)
    if release is None:
        raise KafkaMissing(f"there is no kafka_2.13-*.jar in {libs}: name `libs` of Apache Kafka")
    if release < OLDEST:
        found = ".".join(map(str, release))
        raise KafkaMissing(f"{libs} has Apache Kafka {found}: 4.0 or newer is needed")
    return KafkaProgram(executable, libs, (*QUICK_JVM, *class_archive.options(libs)))


def _installed() -> Path | None:
    """Return `libs` of the Kafka of $KAFKA_HOME, or of the one whose scripts are on PATH."""
    home = os.environ.get(HOME_VARIABLE)
    if home:
        return Path(home, "libs")
    for script in START_SCRIPTS:
        found = shutil.which(script)
        if found is not None:
            libs = Path(found).resolve().parent.parent / "libs"
            if _release(libs) is not None:
                return libs
    return None


def _downloaded() -> Path:
    """Return the folder into which Maven has downloaded, or now downloads, Apache Kafka's jars."""
    from kwire.conformance import apache_kafka, java

    try:
        return apache_kafka.libs()
    except (java.JavaMissing, apache_kafka.ApacheKafkaError) as error:
        raise KafkaMissing(
            f"{error}; or name `libs` of an installed Apache Kafka by --kafka-jars"
        ) from error


def _release(libs: Path) -> tuple[int, int] | None:
    """Return the release of the server whose jars are in a folder, as (4, 4); None if none are."""
    names = [path.name for path in libs.glob("kafka_2.*.jar")]
    numbers = [
        (int(match[1]), int(match[2])) for match in map(SERVER_JAR.fullmatch, names) if match
    ]
    return max(numbers, default=None)
