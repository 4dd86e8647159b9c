"""Moves kwire to another release of Apache Kafka.

    python -m tools.upgrade 4.5.0
    python -m tools.upgrade --list --from 4.3.1 4.4.0

KAFKA is a release, which Maven downloads, or the `libs` folder of a release candidate.  The command
writes the message schemas, the error codes, the tables of settings, features and releases, and the
recorded messages.  Then it prints the work list, which is also in artifacts/upgrade-VERSION.md, and
compares kwire with the release and with the one before it.  docs/kafka-releases.md says what to do
with all that.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from kwire.conformance import java
from kwire.conformance.apache_kafka import VERSION, ZOOKEEPER_VERSION, ApacheKafkaError, libs
from tools import releases
from tools.upgrade import vectors
from tools.upgrade.facts import BROKER, Facts
from tools.upgrade.item import list_text
from tools.upgrade.jars import JarsError
from tools.upgrade.matrix import MatrixFailed, run_matrix
from tools.upgrade.release import Release, read_release
from tools.upgrade.schema_files import file_texts, lost_comments, names_of, texts_in, write
from tools.upgrade.serving import serving
from tools.upgrade.tables import write_tables
from tools.upgrade.worklist import work_list

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SCHEMAS: Final = Path("codecs/schema")
EXIT_NOT_RUN: Final = 2


def kafka_argument(text: str) -> str:
    """A release or a folder; raises ArgumentTypeError for anything else."""
    if Path(text).is_dir() or re.fullmatch(r"\d+\.\d+\.\d+", text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is neither a release such as 4.5.0 nor a folder")


def jars_of(kafka: str) -> Path:
    """The folder of jars that an argument names: a folder, or a release to download."""
    return Path(kafka) if Path(kafka).is_dir() else libs(kafka)


def rewrite(release: Release) -> list[str]:
    """Write the schemas and tables of a release; return one line about each written file."""
    notes = []
    existing = texts_in(ROOT / SCHEMAS)
    texts = file_texts(release.schemas, existing)
    for stem in write(ROOT / SCHEMAS, texts):
        notes.append(f"{SCHEMAS}/{stem}.txt is written")
        lost = lost_comments(texts[stem], existing.get(stem, ""))
        notes += [f"{SCHEMAS}/{stem}.txt lost a comment: {comment}" for comment in lost]
    facts = release.facts
    tables = write_tables(ROOT, release.version, facts.errors, facts.settings, facts.features)
    notes += [f"{name} is written" for name in tables]
    releases.add(release.version, highest_versions(facts))
    return notes


def highest_versions(facts: Facts) -> dict[int, int]:
    """The highest version of each API key that a broker reports in ApiVersions."""
    return {
        api.key: api.stable
        for api in facts.apis
        if BROKER in api.listeners and api.stable >= api.min
    }


def run_python(*command: str) -> bool:
    """Run a Python program of the repository; print its name and return False if it fails."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT)
    if done.returncode:
        print(f"FAILED: python {' '.join(command)}", file=sys.stderr)
    return not done.returncode


def write_all(release: Release, folder: Path, *, with_vectors: bool) -> tuple[list[str], bool]:
    """Write all files of a release; return a line about each, and whether all programs succeed."""
    notes = rewrite(release)
    succeeded = run_python("-m", "kwire.codecs.generator") and run_python("tools/derived.py")
    if with_vectors and succeeded:
        names = names_of(release.schemas)
        recorded = vectors.record(ROOT, folder, libs(ZOOKEEPER_VERSION), names)
        for name, count in recorded.items():
            notes.append(f"{vectors.FOLDER}/{name} has {count} messages")
        succeeded = run_python("-m", "kwire.codecs", str(vectors.FOLDER / vectors.VECTORS))
    return notes, succeeded


def print_matrix(version: str, folder: Path, target: Path) -> bool:
    """Print the wire matrix against a release and add it to the list; False if it did not run."""
    try:
        lines = run_matrix(version, folder, ROOT)
    except MatrixFailed as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return False
    text = "\n".join([*lines, ""])
    print(text)
    with target.open("a", encoding="utf-8") as file:
        file.write(text)
    return True


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if all steps succeed, even with items to be done; 1 if not, and 2 without jars."""
    options = _parser().parse_args(arguments)
    try:
        folders = jars_of(options.before), jars_of(options.kafka)
        before, after = map(read_release, folders)
    except (ApacheKafkaError, JarsError, java.JavaMissing) as error:
        print(f"upgrade: {error}", file=sys.stderr)
        return EXIT_NOT_RUN
    notes: list[str] = []
    succeeded = True
    if not options.list:
        notes, succeeded = write_all(after, folders[1], with_vectors=options.vectors)
    text = list_text(work_list(before, after, serving(ROOT)), before.version, after.version)
    print(text, *notes, sep="\n")
    if options.list:
        return 0
    target = ROOT / "artifacts" / f"upgrade-{after.version}.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text, "utf-8")
    if options.matrix:
        both = zip((after, before), folders[::-1], strict=True)
        succeeded &= all(
            [print_matrix(release.version, folder, target) for release, folder in both]
        )
    print(f"\nThe list is in {target}.")
    return 0 if succeeded else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.upgrade",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kafka", metavar="KAFKA", type=kafka_argument, help="a release, or a folder of its jars"
    )
    parser.add_argument(
        "--from",
        dest="before",
        metavar="KAFKA",
        type=kafka_argument,
        default=VERSION,
        help=f"compare with this one instead of {VERSION}",
    )
    parser.add_argument("--list", action="store_true", help="print the work list, write nothing")
    for name, what in (("matrix", "compare no brokers"), ("vectors", "record no messages")):
        parser.add_argument(f"--no-{name}", dest=name, action="store_false", help=what)
    return parser


if __name__ == "__main__":
    sys.exit(main())
