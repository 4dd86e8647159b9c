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


class Rule(Enum):
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


class Field(NamedTuple):
    """A rule for the fields whose path matches `where`, a pattern over Message.field.field."""

    where: str
    rule: Rule
    reason: str


FIELDS = (
    Field("*.throttle_time_ms", Rule.ANY, "follows from quotas and the load of the moment"),
    Field("*.host", Rule.PRESENT, "the brokers listen where they listen"),
    Field("*.port", Rule.SIGN, "the brokers listen where they listen"),
    Field("*.cluster_id", Rule.PRESENT, "generated when a cluster is made"),
    Field("*.node_id", Rule.NODE, "chosen by whoever sets up a broker"),
    Field("*.broker_id", Rule.NODE, "chosen by whoever sets up a broker"),
    Field("*.controller_id", Rule.NODE, "chosen by whoever sets up a broker"),
    Field("*.leader_id", Rule.NODE, "chosen by whoever sets up a broker"),
    Field("*.replica_nodes", Rule.NODE, "chosen by whoever sets up a broker"),
    Field("*.isr_nodes", Rule.NODE, "chosen by whoever sets up a broker"),
    Field("*.topic_id", Rule.ID, "generated when a topic is made"),
    Field("*.producer_id", Rule.ID, "handed out by each cluster from blocks of its own"),
    Field("FetchResponse.session_id", Rule.SIGN, "random; 0 is none"),
    Field(
        "GetTelemetrySubscriptionsResponse.client_instance_id", Rule.ID, "drawn where there is none"
    ),
    Field(
        "GetTelemetrySubscriptionsResponse.subscription_id",
        Rule.ANY,
        "a hash of an id that may be drawn; of given ones "
        "tests/broker/telemetry/test_against_apache.py",
    ),
    Field("ProduceResponse.*.log_append_time_ms", Rule.SIGN, "the broker's clock"),
    Field("*.documentation", Rule.PRESENT, "in everybody's own words"),
    Field(
        "ApiVersionsResponse.*features*",
        Rule.ANY,
        "levels that the controller of a KRaft cluster has agreed on: other clusters have none",
    ),
    Field("*.last_timestamp", Rule.SIGN, "the broker's clock"),
    Field("*.transaction_start_time_ms", Rule.SIGN, "the broker's clock"),
    Field("DescribeLogDirsResponse.results.log_dir", Rule.PRESENT, "each has its own directory"),
    Field("DescribeLogDirsResponse.results.total_bytes", Rule.SIGN, "the size of its disk"),
    Field("DescribeLogDirsResponse.results.usable_bytes", Rule.SIGN, "the room on its disk"),
    Field("DescribeLogDirsResponse.results.topics", Rule.OWN, "other topics may be there"),
    Field("AlterClientQuotasResponse.entries", Rule.UNORDERED, "in the order of Java's HashMap"),
    Field("*ClientQuotasResponse.entries.entity", Rule.UNORDERED, "in the order of Java's HashMap"),
    Field("DescribeClientQuotasResponse.entries", Rule.UNORDERED, "in the order of Java's HashMap"),
    Field("DescribeClientQuotasResponse.entries", Rule.OWN, "other entities may have some"),
    Field(
        "DescribeClientQuotasResponse.entries.values",
        Rule.UNORDERED,
        "in the order of Java's HashMap",
    ),
    Field(
        "DescribeUserScramCredentialsResponse.results.credential_infos",
        Rule.UNORDERED,
        "a Java map whose keys hash by their address: another order in each start of the broker",
    ),
    Field("MetadataResponse.topics", Rule.OWN, "other topics may be there"),
    Field("DescribeTopicPartitionsResponse.topics", Rule.OWN, "other topics may be there"),
    Field("ListGroupsResponse.groups", Rule.OWN, "other groups may be there"),
    Field("ListTransactionsResponse.transaction_states", Rule.OWN, "others' ids may be there"),
    Field("ListConfigResourcesResponse.config_resources", Rule.OWN, "others' topics and groups"),
    Field("ElectLeadersResponse.replica_election_results", Rule.OWN, "other topics may be there"),
    Field("ApiVersionsResponse.api_keys", Rule.SERVED, "what is not served yet is grey instead"),
    *(
        Field(where, Rule.UNORDERED, "the order of a hash map: clients go by the names")
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


class Item(NamedTuple):
    """An item with this name in the list at `where`, whose `fields` are not compared."""

    where: str
    name: str
    reason: str
    fields: tuple[str, ...]


_CONFIGS = "DescribeConfigsResponse.results.configs"
ITEMS = (
    *(
        Item(_CONFIGS, name, "what each was started with", ("value", "config_source", "synonyms"))
        for name in (
            "advertised.listeners",
            "broker.id",
            "controller.listener.names",
            "controller.quorum.voters",
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


class Text(NamedTuple):
    """A part of a text that is replaced before the comparison."""

    pattern: re.Pattern[str]
    instead: str
    reason: str


TEXTS = (
    Text(re.compile(r"within \[-?\d+, -?\d+\]"), "within [before, after]", "made from the clock"),
    Text(
        re.compile(r"(is not a valid regular expression: ).*\."),
        r"\1(why)",
        "RE2 in C++ has other words than RE2/J",
    ),
)


@cache
def rules_of(where: str) -> tuple[Rule, ...]:
    """The rules for the field at that path, in the order of the table."""
    return tuple(field.rule for field in FIELDS if fnmatchcase(where, field.where))
