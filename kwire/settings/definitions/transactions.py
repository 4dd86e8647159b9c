"""The broker settings of producer ids and transactions."""

from __future__ import annotations

from kwire.settings.definition import CLUSTER_WIDE, HIGH, LOW, Settings, boolean, integer, short
from kwire.settings.effects import NO_BUFFERS, TWO_PHASE_COMMIT
from kwire.settings.validators import at_least


class TransactionSettings(Settings):
    """Producer ids and transactions."""

    add_partitions_to_txn_retry_backoff_max_ms = integer(
        100,
        HIGH,
        at_least(0),
        doc="How long the first batch of a transaction may wait until the producer's previous "
        "transaction has ended.",
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        20,
        HIGH,
        at_least(1),
        doc="How long the broker waits before it asks the coordinator again whether that "
        "transaction has ended.",
    )
    producer_id_expiration_check_interval_ms = integer(
        600_000,
        LOW,
        at_least(1),
        internal=True,
        doc="How often the broker looks for producers that have expired.",
    )
    producer_id_expiration_ms = integer(
        86_400_000,
        LOW,
        at_least(1),
        mode=CLUSTER_WIDE,
        doc="How long the broker keeps the last sequence numbers of a producer that no longer "
        "writes.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000,
        LOW,
        at_least(1),
        doc="How often the coordinator looks for transactions that have timed out.",
    )
    transaction_max_timeout_ms = integer(
        900_000,
        HIGH,
        at_least(1),
        doc="The longest transaction timeout that a producer may request.",
    )
    transaction_partition_verification_enable = boolean(
        True,
        LOW,
        mode=CLUSTER_WIDE,
        doc="Whether a partition's leader asks the coordinator about a transaction before it "
        "appends the transaction's first batch (KIP-890).",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000,
        LOW,
        at_least(1),
        doc="How often the coordinator looks for transactional ids that have expired.",
    )
    transaction_state_log_load_buffer_size = integer(
        5_242_880, HIGH, at_least(1), effect=NO_BUFFERS
    )
    transaction_state_log_min_isr = integer(
        2, HIGH, at_least(1), doc="min.insync.replicas of the topic of transaction state."
    )
    transaction_state_log_num_partitions = integer(
        50, HIGH, at_least(1), doc="The number of partitions of the topic of transaction state."
    )
    transaction_state_log_replication_factor = short(
        3,
        HIGH,
        at_least(1),
        doc="The number of replicas of the topic of transaction state; by default not more than "
        "there are brokers.",
    )
    transaction_state_log_segment_bytes = integer(
        104_857_600, HIGH, at_least(1), doc="Segment size of the topic of transaction state."
    )
    transaction_two_phase_commit_enable = boolean(False, LOW, effect=TWO_PHASE_COMMIT)
    transactional_id_expiration_ms = integer(
        604_800_000,
        HIGH,
        at_least(1),
        doc="How long the coordinator keeps a transactional id that no producer uses.",
    )
