"""Writes kwire/testing/hooks/control/releases.py: the API versions of each Apache Kafka release.

    python tools/releases.py

Maven downloads kafka-clients of each release from Maven Central, and tools/Releases.java reads its
class ApiKeys: up to 3.2 for a broker on ZooKeeper, and from 3.3 on, when KRaft was ready for
production, for a broker on KRaft.  Needs Java 17 and Maven.

`make upgrade` (tools/upgrade) adds one release, which it has read already, by `add`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kwire.testing.hooks.control.releases import CHANGES

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "kwire" / "testing" / "hooks" / "control" / "releases.py"
PROGRAM: Final = ROOT / "tools" / "Releases.java"

LIST: Final = ROOT / "tools" / "releases.txt"
"""The last release of each minor version, one a line, the oldest first."""
ZOOKEEPER_SCOPED: Final = ("2.8", "3.0", "3.1", "3.2")
"""Releases whose ApiKeys have a scope for ZooKeeper.  Earlier ones have no scopes."""
OF_KRAFT_ALONE: Final = {"2.7": {52, 53, 54, 55}}
"""API keys that are in a release's list but disabled."""
LOGGING: Final = "1.7.36"

HEAD: Final = '''\
"""The highest version of each API that each release of Apache Kafka reports in ApiVersions.

tools/releases.py generates this table from the ApiKeys class of each release: up to 3.2 for a
broker on ZooKeeper, from 3.3 on for a broker on KRaft.  APIs that a broker does not report are left
out.
"""

from __future__ import annotations

from typing import Final

CHANGES: Final = {
'''

TAIL: Final = '''}
"""Changes since the previous release: `key:version` is a new highest version, `-key` a removal."""
'''


def fetch(folder: Path, releases: Sequence[str]) -> None:
    """Download the jars to a folder."""
    jars = [("org.apache.kafka", "kafka-clients", release) for release in releases]
    items = "".join(
        f"<artifactItem><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></artifactItem>"
        for group, name, version in [*jars, ("org.slf4j", "slf4j-api", LOGGING)]
    )
    plugin = (
        "<plugin><groupId>org.apache.maven.plugins</groupId>"
        "<artifactId>maven-dependency-plugin</artifactId><configuration>"
        f"<outputDirectory>{folder}</outputDirectory><artifactItems>{items}</artifactItems>"
        "</configuration></plugin>"
    )
    (folder / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>x</groupId><artifactId>x</artifactId><version>1</version>"
        f"<build><plugins>{plugin}</plugins></build></project>"
    )
    subprocess.run(["mvn", "-q", "-B", "dependency:copy"], cwd=folder, check=True)


def ask(folder: Path, release: str) -> dict[int, int]:
    """The highest version of each API key in a release."""
    name = minor(release)
    has_kraft = name >= "3.3"
    scope = ["BROKER"] if has_kraft else ["ZK_BROKER"] if name in ZOOKEEPER_SCOPED else []
    path = f"{folder}/kafka-clients-{release}.jar:{folder}/slf4j-api-{LOGGING}.jar"
    command = ["java", "-cp", path, str(PROGRAM), *scope]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = (line.split() for line in done.stdout.splitlines())
    disabled = OF_KRAFT_ALONE.get(name, set())
    return {int(key): int(high) for key, _, high in rows if int(key) not in disabled}


def changes(before: dict[int, int], after: dict[int, int]) -> str:
    """The differences between two releases, in the form of the module."""
    new = [f"{key}:{high}" for key, high in sorted(after.items()) if before.get(key) != high]
    return " ".join([*new, *(f"-{key}" for key in sorted(before.keys() - after.keys()))])


def entry(release: str, text: str) -> str:
    """The entry of a release in the dict, on one or more lines."""
    words, lines = text.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 85:
            lines.append("")
        lines[-1] += f"{word} "
    lines[-1] = lines[-1].rstrip()
    if len(lines) == 1:
        return f'    "{release}": "{lines[0]}",\n'
    inner = "".join(f'        "{line}"\n' for line in lines)
    return f'    "{release}": (\n{inner}    ),\n'


def minor(release: str) -> str:
    """The name of a release in the table: `4.4` for `4.4.0`."""
    return release.rpartition(".")[0]


def table_text(table: Mapping[str, str]) -> str:
    """The text of the module, except its format."""
    return HEAD + "".join(entry(name, text) for name, text in table.items()) + TAIL


def with_release(table: Mapping[str, str], name: str, versions: dict[int, int]) -> dict[str, str]:
    """The table with the highest versions of a minor release, which is the newest of the table."""
    others = {each: text for each, text in table.items() if each != name}
    before: dict[int, int] = {}
    for text in others.values():
        for word in text.split():
            key, colon, version = word.partition(":")
            if colon:
                before[int(key)] = int(version)
            else:
                del before[int(key.removeprefix("-"))]
    return {**others, name: changes(before, versions)}


def with_listed(releases: Sequence[str], release: str) -> list[str]:
    """The list of releases with one more, which replaces that of its minor version."""
    return [*(each for each in releases if minor(each) != minor(release)), release]


def add(release: str, versions: dict[int, int]) -> None:
    """Write the list and the table with a release, which is the newest."""
    listed = with_listed(LIST.read_text("utf-8").split(), release)
    LIST.write_text("".join(f"{each}\n" for each in listed), "utf-8")
    write_table(with_release(CHANGES, minor(release), versions))


def write_table(table: Mapping[str, str], target: Path = TARGET) -> None:
    target.write_text(table_text(table), "utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(target)], check=True)


def main() -> None:
    """Write the module.  The optional argument is a folder for the jars."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    releases = LIST.read_text("utf-8").split()
    fetch(folder, releases)
    table: dict[str, str] = {}
    for release in releases:
        table = with_release(table, minor(release), ask(folder, release))
    write_table(table)


if __name__ == "__main__":
    main()
