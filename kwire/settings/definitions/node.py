"""The broker settings of a node: ids, roles, quorum, metrics, quotas, policies."""

from __future__ import annotations

from kwire.settings.definition import (
    CLUSTER_WIDE,
    HIGH,
    LOW,
    MEDIUM,
    Settings,
    boolean,
    integer,
    java_class,
    long,
    optional_integer,
    optional_string,
    string,
    strings,
)
from kwire.settings.effects import (
    JAVA,
    METRICS,
    NO_DEADLINE,
    NO_QUORUM,
    ONE_LOOP,
    PROVIDERS,
    STABLE,
)
from kwire.settings.validators import at_least, members, quorum_voters
from kwire.settings.values import LONG_MAX


class NodeSettings(Settings):
    """A node's ids, roles, quorum and metadata log, metrics, quotas and policies.

    Of the settings of KRaft, those of a broker beside controllers act with `process.roles=broker`.
    Those of controllers are declared so that files for Apache Kafka work, and do nothing.
    """

    alter_config_policy_class_name = java_class(LOW, effect=JAVA)
    alter_log_dirs_replication_quota_window_num = integer(
        11,
        LOW,
        at_least(1),
        doc="The number of time windows over which replica.alter.log.dirs.io.max.bytes.per.second "
        "is measured, for copies between log directories.",
    )
    alter_log_dirs_replication_quota_window_size_seconds = integer(
        1, LOW, at_least(1), doc="The length of each of these windows."
    )
    auto_leader_rebalance_enable = boolean(
        True,
        HIGH,
        doc="Whether the controller elects the preferred leaders again when other brokers lead too "
        "many of a broker's partitions.",
    )
    background_threads = integer(10, HIGH, at_least(1), mode=CLUSTER_WIDE, effect=ONE_LOOP)
    broker_heartbeat_interval_ms = integer(
        2000, MEDIUM, doc="Beside KRaft controllers: how often the broker sends them a heartbeat."
    )
    broker_id = integer(-1, HIGH, doc="The former name of node.id.")
    broker_rack = optional_string(
        MEDIUM, doc="The rack of the broker. Replicas of a partition are spread over racks."
    )
    broker_session_timeout_ms = integer(
        9000,
        MEDIUM,
        doc="Beside KRaft controllers: how long after a heartbeat the broker counts as live. The "
        "controllers have the same setting, which decides.",
    )
    client_quota_callback_class = java_class(LOW, effect=JAVA)
    config_providers = strings((), LOW, members(), mode=CLUSTER_WIDE, effect=PROVIDERS)
    controlled_shutdown_enable = boolean(
        True,
        MEDIUM,
        doc="Whether a broker that stops first hands over the leadership of its partitions.",
    )
    controller_performance_always_log_threshold_ms = long(
        2000, MEDIUM, at_least(0), internal=True, effect=NO_QUORUM
    )
    controller_performance_sample_period_ms = long(
        60_000, MEDIUM, at_least(100), internal=True, effect=NO_QUORUM
    )
    controller_quorum_append_linger_ms = integer(25, MEDIUM, at_least(0), effect=NO_QUORUM)
    controller_quorum_auto_join_enable = boolean(False, LOW, effect=NO_QUORUM)
    controller_quorum_bootstrap_servers = strings(
        (),
        HIGH,
        doc="The addresses of KRaft controllers, each as `host:port`, by which a broker with "
        "process.roles=broker finds all of them.",
    )
    controller_quorum_election_backoff_max_ms = integer(1000, HIGH, at_least(0), effect=NO_QUORUM)
    controller_quorum_election_timeout_ms = integer(1000, HIGH, at_least(0), effect=NO_QUORUM)
    controller_quorum_fetch_max_bytes = integer(
        1_048_576,
        LOW,
        at_least(1),
        doc="Beside KRaft controllers: the most bytes of metadata in one response.",
    )
    controller_quorum_fetch_snapshot_max_bytes = integer(
        1_048_576,
        LOW,
        at_least(1),
        doc="Beside KRaft controllers: the most bytes of a snapshot of the metadata in one "
        "response.",
    )
    controller_quorum_fetch_timeout_ms = integer(2000, HIGH, at_least(0), effect=NO_QUORUM)
    controller_quorum_request_timeout_ms = integer(
        2000,
        MEDIUM,
        at_least(0),
        doc="Beside KRaft controllers: how long the broker waits for metadata before it asks "
        "another controller.",
    )
    controller_quorum_retry_backoff_ms = integer(
        20,
        LOW,
        at_least(0),
        doc="Beside KRaft controllers: how long the broker waits after an error before it asks "
        "for metadata again.",
    )
    controller_quorum_voters = strings(
        (),
        HIGH,
        quorum_voters,
        doc="The KRaft controllers of a static quorum, each as `{id}@{host}:{port}`, for a broker "
        "with process.roles=broker.",
    )
    controller_quota_window_num = integer(
        11,
        LOW,
        at_least(1),
        doc="The number of time windows over which `controller_mutation_rate` is measured, the "
        "quota for partitions that clients create and delete.",
    )
    controller_quota_window_size_seconds = integer(
        1, LOW, at_least(1), doc="The length of each of these windows."
    )
    controller_socket_timeout_ms = integer(
        30_000,
        MEDIUM,
        doc="How long the controller waits for a broker's response, and a broker for the "
        "controller's.",
    )
    initial_broker_registration_timeout_ms = integer(
        60_000,
        MEDIUM,
        doc="Beside KRaft controllers: how long they may refuse the registration of the broker "
        "before its start fails.",
    )
    internal_metadata_delete_delay_millis = long(60_000, LOW, internal=True, effect=NO_QUORUM)
    internal_metadata_log_segment_bytes = optional_integer(LOW, internal=True, effect=NO_QUORUM)
    internal_metadata_max_batch_size_in_bytes = integer(
        8_388_608, LOW, internal=True, effect=NO_QUORUM
    )
    kafka_metrics_polling_interval_secs = integer(10, LOW, at_least(1), effect=JAVA)
    kafka_metrics_reporters = strings((), LOW, members(), effect=JAVA)
    leader_imbalance_check_interval_seconds = long(
        300,
        HIGH,
        at_least(1),
        doc="How often the controller checks whether preferred leaders have to be elected.",
    )
    metadata_log_dir = optional_string(
        HIGH,
        doc="Beside KRaft controllers: the directory with the log of the metadata. The default is "
        "the first of log.dirs.",
    )
    metadata_log_max_record_bytes_between_snapshots = long(
        20_971_520,
        HIGH,
        at_least(1),
        doc="Beside KRaft controllers: the broker writes a snapshot of the metadata after so many "
        "bytes of records.",
    )
    metadata_log_max_snapshot_interval_ms = long(
        3_600_000,
        HIGH,
        at_least(0),
        doc="Beside KRaft controllers: the broker writes a snapshot of the metadata after so many "
        "ms if they have changed; 0 sets no limit.",
    )
    metadata_log_segment_bytes = integer(
        1_073_741_824,
        HIGH,
        at_least(8_388_608),
        doc="Beside KRaft controllers: the largest size of a segment of the log of the metadata.",
    )
    metadata_log_segment_ms = long(
        604_800_000,
        HIGH,
        doc="Beside KRaft controllers: the longest time before the log of the metadata begins "
        "another segment.",
    )
    metadata_max_idle_interval_ms = integer(500, LOW, at_least(0), effect=NO_QUORUM)
    metadata_max_retention_bytes = long(
        104_857_600,
        HIGH,
        doc="Beside KRaft controllers: the broker removes its oldest metadata records and "
        "snapshots above that size; -1 sets no limit.",
    )
    metadata_max_retention_ms = long(
        604_800_000,
        HIGH,
        doc="Beside KRaft controllers: the broker removes metadata records and snapshots that are "
        "older; -1 sets no limit.",
    )
    metric_reporters = strings(
        ("org.apache.kafka.common.metrics.JmxReporter",),
        LOW,
        members(),
        mode=CLUSTER_WIDE,
        effect=JAVA,
    )
    metrics_num_samples = integer(2, LOW, at_least(1), effect=METRICS)
    metrics_recording_level = string("INFO", LOW, effect=METRICS)
    metrics_sample_window_ms = long(30_000, LOW, at_least(1), effect=METRICS)
    node_id = integer(1, HIGH, at_least(0), doc="The broker's id in its cluster.")
    process_roles = strings(
        (),
        HIGH,
        members("broker", "controller", empty=False),
        doc="The roles of a KRaft node. With `broker` alone, the broker joins the cluster of the "
        "controllers in controller.quorum.bootstrap.servers or controller.quorum.voters. With "
        "`broker,controller`, or without a value, it is a cluster by itself: kwire cannot be a "
        "controller of other brokers.",
    )
    quota_window_num = integer(
        11,
        LOW,
        at_least(1),
        doc="The number of time windows over which client quotas are measured.",
    )
    quota_window_size_seconds = integer(
        1, LOW, at_least(1), doc="The length of each of these windows."
    )
    server_max_startup_time_ms = long(
        LONG_MAX, MEDIUM, at_least(0), internal=True, effect=NO_DEADLINE
    )
    telemetry_max_bytes = integer(
        1_048_576,
        LOW,
        at_least(1),
        doc="The largest payload of client metrics that the broker accepts, in bytes, both "
        "compressed and decompressed.",
    )
    unstable_api_versions_enable = boolean(False, HIGH, internal=True, effect=STABLE)
    unstable_feature_versions_enable = boolean(False, HIGH, internal=True, effect=STABLE)
