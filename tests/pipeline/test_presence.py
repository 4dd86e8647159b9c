"""A missing topic is reported before Spark starts, which takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.cli.app import app
from kwire.client.cluster import Cluster
from kwire.client.topics import create_topic
from kwire.testing import BrokerProcess


@pytest.mark.slow  # a client of librdkafka asks for each: 0.3 s
def test_missing_topic_is_reported_before_spark_starts(
    shared_broker: BrokerProcess, unique: str, tmp_path: Path
) -> None:
    at = shared_broker.bootstrap
    with Cluster(at) as cluster:
        create_topic(cluster, unique, partitions=1)
    missing = unique[:-1]
    for status, words in (
        (2, ["audit", unique, missing]),
        (2, ["compare", unique, missing]),
        (2, ["compare", missing, unique]),
        (1, ["archive", missing, "--to", str(tmp_path / "archive")]),
        (1, ["mirror", missing, "--to", at]),
    ):
        done = CliRunner().invoke(app, ["pipeline", *words, "-b", at])
        assert done.output == f"kwire: {at} has no topic {missing}: did you mean {unique}?\n"
        assert done.exit_code == status, words
