"""Metrics of Apache Kafka that kwire does not have, and why."""

from __future__ import annotations

from typing import Final

ABSENT: Final[dict[str, tuple[str, ...]]] = {
    "Prometheus computes rates, averages and maxima from counters and summaries": (
        "kafka_server_*_rate",
        "kafka_server_*_avg",
        "kafka_server_*_max",
    ),
    "kwire has one loop, without queues between threads: see `kwire_loop_*`": (
        "kafka_network_acceptor_*",
        "kafka_network_processor_*",
        "kafka_network_requestchannel_*",
        "kafka_network_socketserver_networkprocessoravgidlepercent",
        "kafka_server_kafkarequesthandlerpool_*",
        "kafka_server_*_queue_size",
        "kafka_server_socket_server_metrics_io_*",
        "kafka_server_socket_server_metrics_select_*",
        "kafka_server_*_thread_idle_ratio*",
        "kafka_server_*fetchermanager_deadthreadcount",
        "kafka_server_replicaalterlogdirsmanager_*",
    ),
    "Coordinators append at once: they have no event queue, no purgatory and no batches": (
        "kafka_server_group_coordinator_metrics_background_*",
        "kafka_server_*_coordinator_metrics_batch_*",
        "kafka_server_*_coordinator_metrics_event_*",
    ),
    "Only KRaft controllers have it, and they are Apache Kafka's": (
        "kafka_controller_controllereventmanager_*",
        "kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total",
        "kafka_controller_kafkacontroller_*",
        "kafka_server_raft_metrics_*",
        "kafka_server_snapshotemitter_*",
    ),
    "Images of the metadata replace each other as a whole; only their offset is given": (
        "kafka_server_broker_metadata_metrics_*",
        "kafka_server_brokermetadatalistener_*",
        "kafka_server_metadataloader_*",
        "kafka_server_assignmentsmanager_*",
    ),
    "`kwire_peer_*` has the connections to other brokers": (
        "kafka_server_alter_partition_metrics_*",
        "kafka_server_directory_assignments_metrics_*",
        "kafka_server_forwarding_metrics_*",
        "kafka_server_heartbeat_metrics_*",
        "kafka_server_registration_metrics_*",
        "kafka_server_replica_fetcher_metrics_*",
        "kafka_server_replicafetchermanager_*",
    ),
    "The cleaner is a process, which says nothing of its memory and of its rounds": (
        "kafka_log_logcleaner_*",
        "kafka_log_logcleanermanager_*",
        "kafka_utils_throttler_*",
    ),
    "`kafka_network_requestmetrics_requests_total` and `..._errors_total` count these requests": (
        "kafka_server_brokertopicmetrics_*sharefetchrequests_total",
        "kafka_server_brokertopicmetrics_*shareacknowledgementrequests_total",
    ),
    "`kwire_coordinator_load_*` has the times of loads": ("kafka_server_*_partition_load_time_*",),
    "`kwire_transactions` has the transactions that wait for their markers": (
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_*",
    ),
    "It never happens in kwire: no old message formats, no remote storage, no evictions": (
        "kafka_network_requestmetrics_messageconversionstimems*",
        "kafka_network_requestmetrics_temporarymemorybytes*",
        "kafka_server_brokertopicmetrics_fetchmessageconversions_total",
        "kafka_server_delayedremotelistoffsetsmetrics_*",
        "kafka_server_sharesessioncache_sharesessionevictions_total",
    ),
    "Not measured": (
        "kafka_network_socketserver_expiredconnectionskilledcount",
        "kafka_server_addpartitionstotxnmanager_*",
        "kafka_server_brokertopicmetrics_invalid*",
        "kafka_server_brokertopicmetrics_reassignmentbytes*",
        "kafka_server_client_metrics_unknown_subscription_request_count",
        "kafka_server_group_coordinator_metrics_streams_group_topology_description_*",
        "kafka_server_kafka_metrics_count_count",
        "kafka_server_request_exempt_request_time",
        "kafka_server_share_coordinator_metrics_*",
        "kafka_server_sharegroupmetrics_*",
        "kafka_server_socket_server_metrics_*",
    ),
}
"""The reason, and patterns of the names that Prometheus's JMX exporter gives for Apache Kafka 4.4.
A name that is declared is not absent, also if a pattern matches it."""
