"""`kwire pipeline archive` and `replay`: the examples of their help, and refused options."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from kwire.cli.app import app
from kwire.cli.pipeline.replay import offset_range, speed
from tests.pipeline.archiving.archives import archive_rows, create_topic, produce, topic_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON_MS = 1_772_366_400_000
"""Of March 1, 2026, in UTC: the day of the examples."""


def examples(job: str) -> list[list[str]]:
    """The command lines that a job's help shows, as words."""
    text = CliRunner().invoke(app, ["pipeline", job, "--help"], prog_name="kwire").output
    return [
        line.replace("'", "").split()
        for line in re.findall(rf"^ +kwire (pipeline {job} .+)$", text, re.MULTILINE)
    ]


def run(words: list[str], bootstrap: str, archive: Path) -> dict[str, object]:
    """Run an example on this archive and cluster; its summary.

    It runs in this process, on its Spark session; test_guide.py runs commands in a shell.
    """
    words = [word.replace("/data/archive", str(archive)) for word in words]
    environment = {"KWIRE_BOOTSTRAP_SERVERS": bootstrap}
    done = CliRunner().invoke(app, [*words, "--json"], prog_name="kwire", env=environment)
    assert done.exit_code == 0, done.output
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark's own
def test_first_examples_archive_two_topics_and_replay_one(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    for topic in ("orders", "payments"):
        create_topic(bootstrap, topic, 2)
        rows = (
            {"value": b"%d" % n, "partition": n % 2, "timestamp": NOON_MS + n} for n in range(50)
        )
        produce(bootstrap, topic, rows)
    archive, replay = examples("archive")[0], examples("replay")[0]
    summary = run(archive, bootstrap, tmp_path / "archive")
    assert summary["job"] == "archive"
    assert summary["read"]["records"] == 100  # type: ignore[index]  # JSON
    assert (summary["files"], summary["lost"]) == (2, [])
    assert archive_rows(tmp_path / "archive") == topic_rows(bootstrap, "orders", "payments")
    summary = run(replay, bootstrap, tmp_path / "archive")
    assert (summary["records"], summary["created"]) == (50, ["orders-again"])
    again = topic_rows(bootstrap, "orders-again")
    assert [row[1:] for row in again] == [row[1:] for row in topic_rows(bootstrap, "orders")]


@pytest.mark.parametrize("job", ["archive", "replay"])
def test_command_accepts_every_example_of_its_help(job: str, tmp_path: Path) -> None:
    from importlib import import_module

    command: click.Command = import_module(f"kwire.cli.pipeline.{job}").command
    (tmp_path / "archive").mkdir()
    assert len(examples(job)) == 3
    for words in examples(job):
        given = [word.replace("/data/archive", str(tmp_path / "archive")) for word in words[2:]]
        command.make_context(job, given)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["archive", "--to", "a"], "name topics or give --pattern"),
        (["archive", "t", "--pattern", "t", "--to", "a"], "name topics or give --pattern"),
        (["archive", "t", "--to", "a", "--compact"], "--compact does not go with topics"),
        (
            ["archive", "--to", "a", "--compact", "--continuous"],
            "--compact does not go with topics",
        ),
        (["archive", "t"], "Missing option '--to'"),
        (["archive", "t", "--to", "a", "--every", "often"], "is not a duration"),
        (["replay", "t"], "Missing option '--from'"),
        (["replay", "--from", "nowhere"], "does not exist"),
        (["replay", "--from", ".", "--speed", "0x"], "is not a speed"),
        (["replay", "--from", ".", "--offsets", "t=1-2"], "is not like orders:0=100-200"),
        (["replay", "t", "--pattern", "t", "--from", "."], "not both"),
    ],
)
def test_invalid_option_is_refused_with_a_reason(words: list[str], complaint: str) -> None:
    done = CliRunner().invoke(app, ["pipeline", *words])
    assert done.exit_code == 2
    assert complaint in " ".join(done.output.split())


def test_offset_ranges_and_speeds_are_parsed() -> None:
    assert offset_range("orders:0=100-200") == ("orders", 0, 100, 200)
    assert offset_range("a.b-c_d:12=-7") == ("a.b-c_d", 12, None, 7)
    assert offset_range("orders:1=5-") == ("orders", 1, 5, None)
    assert [speed(text) for text in ("10x", "0.5", "1x")] == [10.0, 0.5, 1.0]
