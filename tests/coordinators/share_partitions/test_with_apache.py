"""Share groups on Apache Kafka 4.3.1: its tools read their state, its broker continues them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from click.testing import CliRunner

from kwire.cli.log import command as log_command
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_fetch import ShareFetchResponse
from kwire.codecs.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.codecs.uuids import uuid_text
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import filled_topic
from kwire.conformance.wire.cases.share_group import (
    ACCEPT,
    RELEASE,
    acknowledge,
    fetch,
    heartbeat,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.cases.share_offsets import describe
from kwire.conformance.wire.stage import Stage
from kwire.testing import BrokerProcess
from tests.clients.waiting import eventually
from tests.conftest import finish
from tests.coordinators.share_partitions.serving import stage_on

pytestmark = [pytest.mark.java, pytest.mark.slow]

JavaClass = Callable[..., CompletedProcess[str]]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
STATES = "__share_group_state"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
    "auto.create.topics.enable": "false",
}


@contextmanager
def on(bootstrap: str) -> Iterator[Stage]:
    stage = stage_on(bootstrap)
    yield stage
    stage.finish()


def acquired(stage: Stage, group: str, topic: CaseTopic) -> list[tuple[int, int, int]]:
    """What a member that is new is given: first and last offset, the how manieth delivery."""
    response: ShareFetchResponse = stage.send(fetch(group, "m", 0, topic))
    assert response.error_code == ErrorCode.NONE
    return [
        (run.first_offset, run.last_offset, run.delivery_count)
        for found in response.responses
        for partition in found.partitions
        for run in partition.acquired_records
    ]


def say(stage: Stage, group: str, topic: CaseTopic, *said: tuple[int, int, int]) -> None:
    """Of records, each in a request of its own: first and last offset, and what."""
    for epoch, (first, last, what) in enumerate(said, 1):
        told = stage.send(acknowledge(group, "m", epoch, topic, (first, last, [what])))
        assert told.responses[0].partitions[0].error_code == ErrorCode.NONE


def left(stage: Stage, group: str) -> dict[str, Any]:
    """Have the member leave; what is told of the group then."""
    stage.send(fetch(group, "m", -1))
    stage.ask(heartbeat(group, "m", -1))
    return known(stage, group)


def known(stage: Stage, group: str) -> dict[str, Any]:
    told = stage.ask(ShareGroupDescribeRequest([group])).groups[0]
    offsets = stage.ask(describe(group)).groups[0].topics
    return {
        "epochs": (told.group_epoch, told.assignment_epoch, told.group_state),
        "offsets": {
            (topic.topic_name, each.partition_index): (each.start_offset, each.lag)
            for topic in offsets
            for each in topic.partitions
        },
    }


def read_in_part(stage: Stage) -> tuple[str, CaseTopic]:
    """Of six records two are done with, two were given back, one was done with behind those."""
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "m", topic)
    assert acquired(stage, group, topic) == [(0, 5, 1)]
    say(stage, group, topic, (0, 1, ACCEPT), (2, 3, RELEASE), (4, 4, ACCEPT))
    return group, topic


def test_apache_kafkas_tools_print_share_state(java_class: JavaClass, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, SETTINGS)
    with broker, on(broker.bootstrap) as stage:
        group, _ = read_in_part(stage)
        left(stage, group)
    path = next((broker.data_dir / f"{STATES}-0").glob("*.log"))
    done = java_class(DUMP, ["--files", path, "--share-group-state-decoder", "--deep-iteration"])
    assert done.returncode == 0, done.stdout + done.stderr
    records = [
        (json.loads(key), json.loads(value))
        for key, value in re.findall(r"key: (\{.*?\}\}) payload: (\{.*)$", done.stdout, re.M)
    ]
    types = Counter(int(key["type"]) for key, _ in records)
    assert types.keys() == {0, 1}, done.stdout
    assert {key["data"]["groupId"] for key, _ in records} == {group}
    states = [
        (batch["firstOffset"], batch["lastOffset"], batch["deliveryState"], batch["deliveryCount"])
        for _, value in records
        for batch in value["data"]["stateBatches"]
    ]
    assert (2, 3, 0, 1) in states, "given back after one delivery"
    assert dumped(path) == [
        # It leaves out a tagged field that has its default.
        (int(key["type"]), key["data"], {"deliveryCompleteCount": -1} | value["data"])
        for key, value in records
    ]


def dumped(path: Path) -> list[tuple[int, object, object]]:
    """Type, key and value of each record as `kwire log dump` has them, in Java's words."""
    arguments = ["dump", str(path), "--records", "--json"]
    done = CliRunner().invoke(log_command, arguments, catch_exceptions=False)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        (each["type"], in_java(each["key"]), in_java(each["value"]))
        for each in told
        if "record" in each
    ]


def in_java(told: Any) -> Any:  # noqa: ANN401 - whatever a record holds
    """Names in camel case, topic ids in base64."""
    if isinstance(told, list):
        return [in_java(each) for each in told]
    if not isinstance(told, dict):
        return told
    return {
        re.sub("_(.)", lambda found: found[1].upper(), name): uuid_text(bytes.fromhex(each))
        if name == "topic_id"
        else in_java(each)
        for name, each in told.items()
    }


@pytest.mark.long
def test_share_group_moves_from_apache_kafka_to_kwire_and_back(
    apache_kafka_libs: Path, tmp_path: Path
) -> None:
    """What is done with is done with, what was given back is delivered again, and counted."""
    root = tmp_path / "apache"
    node = ApacheKafka(root, settings=SETTINGS)
    with node, on(node.bootstrap) as stage:
        group, topic = read_in_part(stage)
        by_apache = left(stage, group)
    broker = BrokerProcess(tmp_path / "kwire", {"node.id": "1", **SETTINGS})
    broker.settings["log.dirs"] = str(root / "data")
    broker.start()
    try:
        with on(broker.bootstrap) as stage:
            eventually(lambda: known(stage, group), by_apache)
            join_until_assigned(stage, group, "m", topic)
            given = acquired(stage, group, topic)
            assert given == [(2, 3, 2), (5, 5, 2)]
            say(stage, group, topic, (2, 2, ACCEPT), (3, 3, RELEASE))
            by_kwire = left(stage, group)
    finally:
        finish(broker)
    with node, on(node.bootstrap) as stage:
        eventually(lambda: known(stage, group), by_kwire)
        join_until_assigned(stage, group, "m", topic)
        assert acquired(stage, group, topic) == [(3, 3, 3), (5, 5, 3)]
