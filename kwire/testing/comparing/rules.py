"""The table of what may differ between two correct brokers, and why.

`FIELDS` lists the fields that are not compared by value, and how they are compared.  A difference
that no rule explains is a finding.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple


class ComparisonRule(Enum):
    """How a value is compared."""

    ANY = auto()
    """Not at all."""
    PRESENT = auto()
    """Null, empty or something."""
    SIGN = auto()
    """Negative (none), zero or positive."""
    ID = auto()
    """A generated id is compared by the order of first appearance.

    Null, all zeros and negative numbers are compared by value: they are not ids.
    """
    NODE = auto()
    """A node id: "self" for the broker's own id, else the number."""
    UNORDERED = auto()
    """A list whose order has no meaning."""
    OWN = auto()
    """A list of everything in the broker: only what the case created or named is compared."""
    SERVED = auto()
    """A list by API key: only keys that both brokers serve are compared."""


class FieldRule(NamedTuple):
    """A rule for the fields whose path matches `where`, a pattern over Message.field.field."""

    where: str
    rule: ComparisonRule
    reason: str


FIELDS = (
    FieldRule(
        "*.throttle_time_ms", ComparisonRule.ANY, "follows from quotas and the load of the moment"
    ),
    FieldRule("*.host", ComparisonRule.PRESENT, "the brokers listen where they listen"),
    FieldRule("*.port", ComparisonRule.SIGN, "the brokers listen where they listen"),
    FieldRule("*.cluster_id", ComparisonRule.PRESENT, "generated when a cluster is made"),
    FieldRule("*.node_id", ComparisonRule.NODE, "chosen by whoever sets up a broker"),
    FieldRule("*.broker_id", ComparisonRule.NODE, "chosen by whoever sets up a broker"),
    FieldRule("*.controller_id", ComparisonRule.NODE, "chosen by whoever sets up a broker"),
    FieldRule("*.leader_id", ComparisonRule.NODE, "chosen by whoever sets up a broker"),
    FieldRule(
        "DescribeQuorumResponse.*.replica_id",
        ComparisonRule.NODE,
        "chosen by whoever sets up a broker",
    ),
    *(
        FieldRule(f"DescribeQuorumResponse.{where}", ComparisonRule.SIGN, reason)
        for where, reason in (
            ("topics.partitions.leader_epoch", "counts the starts of a broker"),
            ("topics.partitions.high_watermark", "each has its own metadata"),
            ("topics.partitions.*.log_end_offset", "each has its own metadata"),
            ("topics.partitions.*_timestamp", "the broker's clock"),
        )
    ),
    FieldRule(
        "DescribeQuorumResponse.nodes.listeners.name",
        ComparisonRule.PRESENT,
        "kwire has no listener for controllers: the voter is where its clients are",
    ),
    FieldRule("*.replica_nodes", ComparisonRule.NODE, "chosen by whoever sets up a broker"),
    FieldRule("*.isr_nodes", ComparisonRule.NODE, "chosen by whoever sets up a broker"),
    FieldRule("*.topic_id", ComparisonRule.ID, "generated when a topic is made"),
    FieldRule(
        "*.producer_id", ComparisonRule.ID, "handed out by each cluster from blocks of its own"
    ),
    FieldRule("FetchResponse.session_id", ComparisonRule.SIGN, "random; 0 is none"),
    FieldRule(
        "GetTelemetrySubscriptionsResponse.client_instance_id",
        ComparisonRule.ID,
        "drawn where there is none",
    ),
    FieldRule(
        "GetTelemetrySubscriptionsResponse.subscription_id",
        ComparisonRule.ANY,
        "a hash of an id that may be drawn; of given ones "
        "tests/broker/telemetry/test_against_apache.py",
    ),
    FieldRule("ProduceResponse.*.log_append_time_ms", ComparisonRule.SIGN, "the broker's clock"),
    FieldRule("*.documentation", ComparisonRule.PRESENT, "in everybody's own words"),
    FieldRule(
        "ApiVersionsResponse.*features*",
        ComparisonRule.ANY,
        "levels that the controller of a KRaft cluster has agreed on: other clusters have none",
    ),
    FieldRule("*.last_timestamp", ComparisonRule.SIGN, "the broker's clock"),
    FieldRule("*.transaction_start_time_ms", ComparisonRule.SIGN, "the broker's clock"),
    FieldRule(
        "DescribeLogDirsResponse.results.log_dir",
        ComparisonRule.PRESENT,
        "each has its own directory",
    ),
    FieldRule(
        "DescribeLogDirsResponse.results.total_bytes", ComparisonRule.SIGN, "the size of its disk"
    ),
    FieldRule(
        "DescribeLogDirsResponse.results.usable_bytes", ComparisonRule.SIGN, "the room on its disk"
    ),
    FieldRule(
        "DescribeLogDirsResponse.results.topics", ComparisonRule.OWN, "other topics may be there"
    ),
    FieldRule(
        "AlterClientQuotasResponse.entries",
        ComparisonRule.UNORDERED,
        "in the order of Java's HashMap",
    ),
    FieldRule(
        "*ClientQuotasResponse.entries.entity",
        ComparisonRule.UNORDERED,
        "in the order of Java's HashMap",
    ),
    FieldRule(
        "DescribeClientQuotasResponse.entries",
        ComparisonRule.UNORDERED,
        "in the order of Java's HashMap",
    ),
    FieldRule(
        "DescribeClientQuotasResponse.entries", ComparisonRule.OWN, "other entities may have some"
    ),
    FieldRule(
        "DescribeClientQuotasResponse.entries.values",
        ComparisonRule.UNORDERED,
        "in the order of Java's HashMap",
    ),
    FieldRule(
        "DescribeUserScramCredentialsResponse.results.credential_infos",
        ComparisonRule.UNORDERED,
        "a Java map whose keys hash by their address: another order in each start of the broker",
    ),
    FieldRule("MetadataResponse.topics", ComparisonRule.OWN, "other topics may be there"),
    FieldRule(
        "DescribeTopicPartitionsResponse.topics", ComparisonRule.OWN, "other topics may be there"
    ),
    FieldRule("ListGroupsResponse.groups", ComparisonRule.OWN, "other groups may be there"),
    FieldRule(
        "ListTransactionsResponse.transaction_states",
        ComparisonRule.OWN,
        "others' ids may be there",
    ),
    FieldRule(
        "ListConfigResourcesResponse.config_resources",
        ComparisonRule.OWN,
        "others' topics and groups",
    ),
    FieldRule(
        "ElectLeadersResponse.replica_election_results",
        ComparisonRule.OWN,
        "other topics may be there",
    ),
    FieldRule(
        "ApiVersionsResponse.api_keys",
        ComparisonRule.SERVED,
        "what is not served yet is grey instead",
    ),
    *(
        FieldRule(
            where, ComparisonRule.UNORDERED, "the order of a hash map: clients go by the names"
        )
        for where in (
            "ProduceResponse.responses",
            "ProduceResponse.responses.partition_responses",
            "ListOffsetsResponse.topics",
            "ListOffsetsResponse.topics.partitions",
            "OffsetCommitResponse.topics",
            "MetadataResponse.brokers",
            "MetadataResponse.topics",
            "DescribeClusterResponse.brokers",
            "DescribeGroupsResponse.groups",
            "DeleteTopicsResponse.responses",
            "DeleteRecordsResponse.topics",
            "DeleteRecordsResponse.topics.partitions",
            "CreatePartitionsResponse.results",
            "ElectLeadersResponse.replica_election_results",
            "DeleteGroupsResponse.results",
            "AlterReplicaLogDirsResponse.results",
            "AlterReplicaLogDirsResponse.results.partitions",
            "DescribeLogDirsResponse.results.topics",
            "DescribeLogDirsResponse.results.topics.partitions",
            "ListGroupsResponse.groups",
            "ListConfigResourcesResponse.config_resources",
            "ConsumerGroupDescribeResponse.groups",
            "ConsumerGroupDescribeResponse.groups.members",
            "ConsumerGroup*Response.*assignment.topic_partitions",
            "ShareGroupDescribeResponse.groups",
            "ShareGroupDescribeResponse.groups.members",
            "ShareGroupDescribeResponse.groups.members.subscribed_topic_names",
            "ShareGroup*Response.*assignment.topic_partitions",
            "StreamsGroupDescribeResponse.groups",
            "StreamsGroupDescribeResponse.groups.members",
            "StreamsGroupHeartbeatResponse.partitions_by_user_endpoint",
            "StreamsGroupHeartbeatResponse.partitions_by_user_endpoint.*_partitions",
            "ShareFetchResponse.responses",
            "ShareFetchResponse.responses.partitions",
            "ShareAcknowledgeResponse.responses",
            "ShareAcknowledgeResponse.responses.partitions",
            "*ShareGroupState*Response.results",
            "*ShareGroupState*Response.results.partitions",
            "*ShareGroupOffsetsResponse.responses",
            "*ShareGroupOffsetsResponse.groups.topics",
            "DescribeGroupsResponse.groups.members",
            "JoinGroupResponse.members",
            "DescribeConfigsResponse.results.configs",
            "AddPartitionsToTxnResponse.results_by_transaction",
            "AddPartitionsToTxnResponse.results_by_transaction.topic_results",
            "AddPartitionsToTxnResponse.results_by_transaction.topic_results.results_by_partition",
            "AddPartitionsToTxnResponse.results_by_topic_v3_and_below",
            "AddPartitionsToTxnResponse.results_by_topic_v3_and_below.results_by_partition",
            "DescribeTransactionsResponse.transaction_states.topics",
            "DescribeTransactionsResponse.transaction_states.topics.partitions",
            "ListTransactionsResponse.transaction_states",
            "ListTransactionsResponse.unknown_state_filters",
            "WriteTxnMarkersResponse.markers",
            "WriteTxnMarkersResponse.markers.topics",
            "WriteTxnMarkersResponse.markers.topics.partitions",
            "TxnOffsetCommitResponse.topics",
            "DescribeProducersResponse.topics.partitions.active_producers",
        )
    ),
)


class ItemRule(NamedTuple):
    """An item with this name in the list at `where`, whose `fields` are not compared."""

    where: str
    name: str
    reason: str
    fields: tuple[str, ...]


_CONFIGS = "DescribeConfigsResponse.results.configs"
ITEMS = (
    *(
        ItemRule(
            _CONFIGS, name, "what each was started with", ("value", "config_source", "synonyms")
        )
        for name in (
            "advertised.listeners",
            "broker.id",
            "controller.listener.names",
            "controller.quorum.bootstrap.servers",
            "controller.quorum.voters",
            "group.streams.topology.description.plugin.class",
            "inter.broker.listener.name",
            "listener.security.protocol.map",
            "listeners",
            "log.dirs",
            "metric.reporters",
            "node.id",
            "num.partitions",
            "process.roles",
        )
    ),
)


class TextRule(NamedTuple):
    """A part of a text that is replaced before the comparison."""

    pattern: re.Pattern[str]
    instead: str
    reason: str


TEXTS = (
    TextRule(
        re.compile(r'(doesn\'t match the cluster id )"[^"]*"'),
        r'\1"(cluster id)"',
        "generated when a cluster is made",
    ),
    TextRule(
        re.compile(r"within \[-?\d+, -?\d+\]"), "within [before, after]", "made from the clock"
    ),
    TextRule(
        re.compile(r"(is not a valid regular expression: ).*\."),
        r"\1(why)",
        "RE2 in C++ has other words than RE2/J",
    ),
)


@cache
def rules_of(where: str) -> tuple[ComparisonRule, ...]:
    """The rules for the field at that path, in the order of the table."""
    return tuple(field.rule for field in FIELDS if fnmatchcase(where, field.where))
