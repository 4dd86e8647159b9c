"""Compares Apache Kafka's responses to the access requests with the recorded ones.

python -m kwire.conformance.access
python -m kwire.conformance.access --rewrite --only requests
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import Final, NamedTuple

from kwire.conformance.access.brokers import (
    answers,
    answers_to_brokers,
    apache,
    apache_on_zookeeper,
    scenes,
)
from kwire.conformance.access.kept import text_of, text_of_scenes
from kwire.conformance.apache_kafka import VERSION, ZOOKEEPER_VERSION, libs
from kwire.testing import ZooKeeperProcess

DATA: Final = Path("tests/conformance/data")


class Recording(NamedTuple):
    """A file in DATA, and the function that gets the responses in it from Apache Kafka."""

    file_name: str
    current: Callable[[Path], str]


def _requests(directory: Path) -> str:
    with apache(directory) as (plain, sasl):
        return text_of(answers(plain, sasl))


def _scenes(directory: Path) -> str:
    with apache(directory) as (plain, sasl):
        return text_of_scenes(scenes(plain, sasl))


def _brokers(directory: Path) -> str:
    """Return the text of the responses to brokers, from Apache Kafka with a ZooKeeper."""
    with (
        ZooKeeperProcess(directory / "zookeeper", jars=libs(ZOOKEEPER_VERSION)) as zookeeper,
        apache_on_zookeeper(directory / "broker", zookeeper.connect("/access")) as (plain, sasl),
    ):
        return text_of(answers_to_brokers(plain, sasl))


RECORDINGS: Final = {
    "requests": Recording(f"access-{VERSION}.txt", _requests),
    "scenes": Recording(f"access-scenes-{VERSION}.txt", _scenes),
    "brokers": Recording(f"access-brokers-{ZOOKEEPER_VERSION}.txt", _brokers),
}
"""The recordings by the names that `--only` takes."""


def main() -> int:
    """Compare the responses of Apache Kafka with the recorded ones; return 1 if a file differs."""
    parser = argparse.ArgumentParser(
        prog="python -m kwire.conformance.access",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rewrite", action="store_true", help=f"write the responses to {DATA}")
    parser.add_argument("--only", choices=list(RECORDINGS), help="ask for one recording only")
    options = parser.parse_args()
    chosen = [RECORDINGS[options.only]] if options.only else RECORDINGS.values()
    differ = [each for each in chosen if _differs(each, rewrite=options.rewrite)]
    return int(bool(differ))


def _differs(recording: Recording, *, rewrite: bool) -> bool:
    """Compare a recording with new responses and print the difference; return whether they differ.

    `rewrite` writes the new responses instead, and returns False.
    """
    with tempfile.TemporaryDirectory() as directory:
        current = recording.current(Path(directory))
    name, path = recording.file_name, DATA / recording.file_name
    if rewrite:
        path.parent.mkdir(exist_ok=True)
        path.write_text(current, encoding="utf-8")
        return False
    recorded = path.read_text(encoding="utf-8")
    difference = unified_diff(recorded.splitlines(True), current.splitlines(True), name, "now")
    sys.stdout.writelines(difference)
    return current != recorded


if __name__ == "__main__":
    sys.exit(main())
