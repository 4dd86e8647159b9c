"""Tests Apache Kafka's console tools with their default settings.

Each call starts a Java machine, one or two seconds: what belongs together is one test, and what
only has to be there is made by librdkafka.  For every change the tools of producers, consumers,
topics and groups run.  The requests of the others (settings, offsets, folders, deleted records,
versions, elections, reassignments) are compared with Apache Kafka's answers for every change by
tests/conformance/test_wire.py; their tools change with Apache Kafka alone and are `long`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.clients.librdkafka import create_topic, produce

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
PRODUCER = f"{TOOLS}.ConsoleProducer"
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ELECTION = f"{TOOLS}.LeaderElectionCommand"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"

Tool = Callable[..., str]
JavaClass = Callable[..., CompletedProcess[str]]


@pytest.fixture
def tool(bootstrap: str, java_class: JavaClass) -> Tool:
    """Runs a tool on the broker and returns its output; it must succeed without warnings."""

    def run(name: str, *arguments: object, stdin: str = "") -> str:
        given = ["--bootstrap-server", bootstrap, *map(str, arguments)]
        done = java_class(name, given, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        assert " ERROR " not in done.stderr, done.stderr
        return done.stdout

    return run


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def test_console_producer_and_consumer_commit_and_resume(
    tool: Tool, bootstrap: str, unique: str
) -> None:
    create_topic(bootstrap, unique)
    consume = [CONSUMER, "--topic", unique, "--group", unique, "--from-beginning"]
    tool(PRODUCER, "--topic", unique, stdin="one\ntwo\nthree\nfour\n")
    assert lines(tool(*consume, "--max-messages", 2)) == ["one", "two"]
    assert lines(tool(*consume, "--max-messages", 2)) == ["three", "four"]


def test_console_clients_preserve_keys_headers_and_tombstones(tool: Tool, unique: str) -> None:
    reading = ["parse.key=true", "parse.headers=true", "null.marker=NULL"]
    properties = [word for name in reading for word in ("--reader-property", name)]
    codec = ["--compression-codec", "zstd"]
    records = "h1:v1,h2:v2\tk1\tone\nh:x\tk2\tNULL\n"
    tool(PRODUCER, "--topic", unique, *codec, *properties, stdin=records)
    printing = ["print.key=true", "print.headers=true", "print.offset=true", "null.literal=NULL"]
    properties = [word for name in printing for word in ("--formatter-property", name)]
    shown = tool(CONSUMER, "--topic", unique, "--from-beginning", "--max-messages", 2, *properties)
    assert lines(shown) == ["Offset:0\th1:v1,h2:v2\tk1\tone", "Offset:1\th:x\tk2\tNULL"]


@pytest.mark.long
def test_verifiable_clients_acknowledge_and_commit_everything(tool: Tool, unique: str) -> None:
    sent = tool(f"{TOOLS}.VerifiableProducer", "--topic", unique, "--max-messages", 200)
    summary = [json.loads(line) for line in lines(sent)][-1]
    assert (summary["sent"], summary["acked"]) == (200, 200)
    arguments = ["--topic", unique, "--group-id", unique, "--max-messages", 200]
    got = tool(f"{TOOLS}.VerifiableConsumer", *arguments, "--reset-policy", "earliest")
    events = [json.loads(line) for line in lines(got)]
    consumed = sum(event["count"] for event in events if event["name"] == "records_consumed")
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert consumed == 200
    assert all(event["success"] for event in committed)
    assert committed[-1]["offsets"][0]["offset"] == 200


def test_topics_are_created_altered_described_and_deleted(tool: Tool, unique: str) -> None:
    settings = ["--partitions", 2, "--config", "retention.ms=100000"]
    assert f"Created topic {unique}." in tool(TOPICS, "--create", "--topic", unique, *settings)
    tool(TOPICS, "--alter", "--topic", unique, "--partitions", 3)
    head, *partitions = lines(tool(TOPICS, "--describe", "--topic", unique))
    assert re.search(
        r"PartitionCount: 3\tReplicationFactor: 1\tConfigs: .*retention.ms=100000", head
    )
    for number, line in enumerate(partitions):
        assert re.search(rf"Partition: {number}\tLeader: (\d+)\tReplicas: \1\tIsr: \1", line)
    assert tool(TOPICS, "--describe", "--unavailable-partitions").strip() == ""
    tool(TOPICS, "--delete", "--topic", unique)
    assert unique not in lines(tool(TOPICS, "--list"))


@pytest.mark.long
def test_configs_of_topics_are_altered_and_described(
    tool: Tool, bootstrap: str, unique: str
) -> None:
    create_topic(bootstrap, unique, config={"retention.ms": "100000"})
    of_topic = ["--entity-type", "topics", "--entity-name", unique]
    change = ["--add-config", "max.message.bytes=2000", "--delete-config", "retention.ms"]
    tool(CONFIGS, "--alter", *of_topic, *change)
    assert lines(tool(CONFIGS, "--describe", *of_topic))[1:] == [
        "  max.message.bytes=2000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
        "max.message.bytes=2000, DEFAULT_CONFIG:message.max.bytes=1048588}"
    ]
    everything = tool(CONFIGS, "--describe", "--all", *of_topic)
    assert "  cleanup.policy=delete sensitive=false" in everything
    broker = tool(CONFIGS, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert "  log.segment.bytes=1073741824 sensitive=false" in broker


def test_groups_are_described_reset_and_deleted(tool: Tool, bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    produce(bootstrap, unique, 3)
    tool(CONSUMER, "--topic", unique, "--group", unique, "--from-beginning", "--max-messages", 3)
    _, row = lines(tool(GROUPS, "--describe", "--group", unique))
    assert row.split() == [unique, unique, "0", "3", "3", "0", "-", "-", "-"]
    assert re.search(rf"{unique}.*Empty", tool(GROUPS, "--list", "--state"))
    reset = ["--reset-offsets", "--group", unique, "--topic", unique, "--execute"]
    _, row = lines(tool(GROUPS, *reset, "--shift-by", "-2"))
    assert row.split() == [unique, unique, "0", "1"]
    of_offsets = ["--delete-offsets", "--group", unique, "--topic", unique]
    assert "Request succeeded" in tool(GROUPS, *of_offsets)
    assert "was successful" in tool(GROUPS, "--delete", "--group", unique)


@pytest.mark.long
def test_tools_report_offsets_log_dirs_and_deleted_records(
    tool: Tool, bootstrap: str, unique: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, unique)
    produce(bootstrap, unique, 3)
    plan = tmp_path / "delete.json"
    partition = {"topic": unique, "partition": 0, "offset": 2}
    plan.write_text(json.dumps({"partitions": [partition], "version": 1}))
    deleted = tool(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", plan)
    assert f"partition: {unique}-0\tlow_watermark: 2" in deleted
    first = tool(f"{TOOLS}.GetOffsetShell", "--topic", unique, "--time", "-2")
    assert lines(first) == [f"{unique}:0:2"]
    shown = lines(tool(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", unique))[-1]
    (broker,) = json.loads(shown)["brokers"]
    (log_dir,) = broker["logDirs"]
    assert log_dir["error"] is None
    (of_partition,) = log_dir["partitions"]
    assert of_partition["partition"] == f"{unique}-0"
    assert of_partition["size"] > 0


@pytest.mark.long
def test_tools_report_versions_features_and_cluster_id(
    bootstrap: str, java_class: JavaClass, tool: Tool
) -> None:
    versions = tool(f"{TOOLS}.BrokerApiVersionsCommand")
    assert re.search(r"Produce\(0\): 0 to \d+ \[usable: \d+\]", versions)
    given = ["cluster-id", "--bootstrap-server", bootstrap]
    shown = java_class(f"{TOOLS}.ClusterTool", given)
    assert re.search(r"Cluster ID: [\w-]{22}$", shown.stdout.strip())


def test_tools_describe_the_quorum_and_unregister_brokers(
    bootstrap: str, java_class: JavaClass, tool: Tool, unique: str
) -> None:
    def status() -> dict[str, str]:
        shown = tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
        return dict(re.split(r":\s+", line, maxsplit=1) for line in lines(shown))

    before = status()
    assert re.fullmatch(r"[\w-]{22}", before["ClusterId"])
    leader = before["LeaderId"]
    assert f'"id": {leader}' in before["CurrentVoters"]
    assert int(before["LeaderEpoch"]) >= 1
    assert int(before["HighWatermark"]) >= 1
    assert (before["MaxFollowerLag"], before["MaxFollowerLagTimeMs"]) == ("0", "0")
    create_topic(bootstrap, unique)
    assert int(status()["HighWatermark"]) > int(before["HighWatermark"])
    replicas = lines(tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--replication"))
    node, _, end_offset, lag, *_, role = replicas[1].split()
    assert (node, lag, role) == (leader, "0", "Leader")
    assert int(end_offset) > int(before["HighWatermark"])
    given = ["unregister", "--bootstrap-server", bootstrap, "--id", "2000000000"]
    shown = java_class(f"{TOOLS}.ClusterTool", given)
    assert "Broker ID 2000000000 is not currently registered" in shown.stdout + shown.stderr


@pytest.mark.long
def test_performance_tools_produce_and_consume_all_records(tool: Tool, unique: str) -> None:
    common = ["--topic", unique, "--num-records", 20_000]
    sending = ["--record-size", 100, "--throughput", -1]
    assert "20000 records sent" in tool(f"{TOOLS}.ProducerPerformance", *common, *sending)
    table = lines(tool(f"{TOOLS}.ConsumerPerformance", *common))
    assert table[-1].split(", ")[4] == "20000"


@pytest.mark.long
def test_election_and_reassignment_tools_report_nothing_to_do(
    tool: Tool, bootstrap: str, unique: str, tmp_path: Path
) -> None:
    """On one broker there is no election or move to do, and the tools say so."""
    create_topic(bootstrap, unique, 2)
    where = ["--topic", unique, "--partition", 0]
    for kind in ("preferred", "unclean"):
        elected = tool(ELECTION, "--election-type", kind, *where)
        assert f"Valid replica already elected for partitions {unique}-0" in elected
    (node,) = re.findall(r"Leader: (\d+)", tool(TOPICS, "--describe", "--topic", unique))[:1]
    plan = tmp_path / "plan.json"
    partitions = [{"topic": unique, "partition": each, "replicas": [int(node)]} for each in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    given = ["--reassignment-json-file", plan]
    executed = tool(REASSIGN, *given, "--execute", "--throttle", 1_000_000)
    assert f"Successfully started partition reassignments for {unique}-0,{unique}-1" in executed
    verified = tool(REASSIGN, *given, "--verify")
    assert f"Reassignment of partition {unique}-0 is completed." in verified
    assert f"Clearing topic-level throttles on topic {unique}" in verified
    assert "No partition reassignments found." in tool(REASSIGN, "--list")
