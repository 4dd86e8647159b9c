"""Apache Kafka's tools against brokers of either kind, beside controllers of 4.4.0."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.mixed.by_tools import Tool, cancel_reassignment, elect_uncleanly, live_by_tools
from tests.cluster.mixed.kraft.stage import KINDS, OnKRaft, on_kraft
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
FIRST_AND_LAST = (1, 3)
"""A broker of each kind, in all clusters of KINDS."""


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_kafka_tools_work_with_either_kind_of_broker(
    kinds: tuple[str, ...], apache_kafka_tools: Path, tmp_path: Path
) -> None:
    with on_kraft(tmp_path, *kinds, settings=AUTHORIZER) as cluster:
        for asked in FIRST_AND_LAST:
            tool = cluster.tool(asked)
            live_by_tools(cluster, tool, f"t{asked}", tmp_path)
            cancel_reassignment(cluster, tool, f"c{asked}", tmp_path)
        answers = [quorum_and_features(cluster, asked) for asked in FIRST_AND_LAST]
        assert answers[0] == answers[1]
        for asked, other in (FIRST_AND_LAST, FIRST_AND_LAST[::-1]):
            change_rights(cluster, asked, other)
            change_users_and_quotas(cluster, asked, other)


def quorum_and_features(cluster: OnKRaft, asked: int) -> list[str]:
    """What the tools print about the quorum and the features; numbers that grow are left out."""
    tool = cluster.tool(asked)
    status = tool(QUORUM, "describe", "--status")
    leader = cluster.quorum.wait_for_leader()
    assert re.search(rf"LeaderId: +{leader}\n", status), status
    replication = tool(QUORUM, "describe", "--replication")
    for number in (leader, *cluster.brokers):
        assert re.search(rf"^{number}\s", replication, re.MULTILINE), replication
    features = tool(FEATURES, "describe")
    kept = [re.sub(r"Epoch: \d+", "", line) for line in features.splitlines()]
    nodes = sorted(re.findall(r"^(\d+)\s+(\S+).*(Leader|Follower|Observer)", replication, re.M))
    return [*kept, *map(str, nodes)]


def change_rights(cluster: OnKRaft, asked: int, other: int) -> None:
    """Add and remove an ACL by one broker; the other one shows it."""
    tool, listing = cluster.tool(asked), cluster.tool(other)
    acl = ["--allow-principal", f"User:u{asked}", "--operation", "Read", "--topic", f"t{asked}"]
    tool(ACLS, "--add", *acl)
    until(lambda: f"principal=User:u{asked}" in listing(ACLS, "--list"), "listed")
    tool(ACLS, "--remove", "--force", *acl)
    until(lambda: f"principal=User:u{asked}" not in listing(ACLS, "--list"), "removed")


def change_users_and_quotas(cluster: OnKRaft, asked: int, other: int) -> None:
    """Add a SCRAM user, a quota and a broker config by one broker; the other one shows them."""
    tool, listing = cluster.tool(asked), cluster.tool(other)
    user = ["--entity-type", "users", "--entity-name", f"u{asked}"]
    tool(CONFIGS, "--alter", *user, "--add-config", "SCRAM-SHA-256=[password=secret]")
    tool(CONFIGS, "--alter", *user, "--add-config", "producer_byte_rate=123456")
    wanted = "SCRAM-SHA-256", "producer_byte_rate=123456"
    until(lambda: shows(listing, user, *wanted), "has the credentials and the quota")
    for entity in (["--entity-name", str(other)], ["--entity-default"]):
        set_on_brokers(tool, listing, entity)


def set_on_brokers(tool: Tool, listing: Tool, entity: list[str]) -> None:
    """Set a config of brokers by one broker; the other one shows it."""
    brokers = ["--entity-type", "brokers", *entity]
    tool(CONFIGS, "--alter", *brokers, "--add-config", "log.cleaner.threads=2")
    until(lambda: shows(listing, brokers, "log.cleaner.threads=2"), "has the config")
    tool(CONFIGS, "--alter", *brokers, "--delete-config", "log.cleaner.threads")


def shows(listing: Tool, entity: list[str], *wanted: str) -> bool:
    """Whether the tool prints all these configs of an entity."""
    described = listing(CONFIGS, "--describe", *entity)
    return all(each in described for each in wanted)


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_unclean_election_truncates_the_other_replica(
    kinds: tuple[str, ...], apache_kafka_tools: Path, tmp_path: Path
) -> None:
    """Each broker in turn is the one that has to truncate."""
    settings = {"min.insync.replicas": "1", "replica.lag.time.max.ms": "6000"}
    with on_kraft(tmp_path, *kinds, settings=settings) as cluster:
        for asked, first, second in ((1, 2, 3), (2, 3, 1), (3, 1, 2)):
            tool = cluster.tool(asked)
            elect_uncleanly(cluster, tool, f"u{asked}", asked, first, second)
