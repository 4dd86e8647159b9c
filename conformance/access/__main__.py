"""python -m kwire.conformance.access [--rewrite] [--only NAME]: compares Apache Kafka's responses
with the stored ones."""

from __future__ import annotations

import argparse
import sys
import tempfile
from difflib import unified_diff
from pathlib import Path
from typing import Final

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


def _matrix(directory: Path) -> str:
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


RECORDED: Final = {
    f"access-{VERSION}.txt": _matrix,
    f"access-scenes-{VERSION}.txt": _scenes,
    f"access-brokers-{ZOOKEEPER_VERSION}.txt": _brokers,
}
"""The recorded files in DATA, each with the function that gets the responses from Apache Kafka."""


def main() -> int:
    """Compare the responses of Apache Kafka with the stored ones; return 1 if a file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rewrite", action="store_true", help=f"store the responses in {DATA}")
    parser.add_argument("--only", choices=list(RECORDED), help="compare only this file")
    options = parser.parse_args()
    names = [options.only] if options.only else list(RECORDED)
    differ = [name for name in names if _differs(name, rewrite=options.rewrite)]
    return int(bool(differ))


def _differs(name: str, *, rewrite: bool) -> bool:
    """Compare one file with new responses and print the difference; return whether they differ."""
    with tempfile.TemporaryDirectory() as directory:
        current = RECORDED[name](Path(directory))
    path = DATA / name
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
