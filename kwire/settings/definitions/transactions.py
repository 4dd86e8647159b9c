"""The broker settings of producer ids and transactions."""

from __future__ import annotations

from kwire.settings.definition import CLUSTER_WIDE, HIGH, LOW, Settings, boolean, integer, short
from kwire.settings.effects import NO_BUFFERS, TWO_PHASE_COMMIT
from kwire.settings.validators import at_least


class TransactionSettings(Settings):
    """Producer ids and transactions."""

    add_partitions_to_txn_retry_backoff_max_ms = integer(100, HIGH, at_least(0))
    add_partitions_to_txn_retry_backoff_ms = integer(20, HIGH, at_least(1))
    producer_id_expiration_check_interval_ms = integer(600_000, LOW, at_least(1), internal=True)
    producer_id_expiration_ms = integer(86_400_000, LOW, at_least(1), mode=CLUSTER_WIDE)
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(10_000, LOW, at_least(1))
    transaction_max_timeout_ms = integer(900_000, HIGH, at_least(1))
    transaction_partition_verification_enable = boolean(True, LOW, mode=CLUSTER_WIDE)
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, LOW, at_least(1)
    )
    transaction_state_log_load_buffer_size = integer(
        5_242_880, HIGH, at_least(1), effect=NO_BUFFERS
    )
    transaction_state_log_min_isr = integer(2, HIGH, at_least(1))
    transaction_state_log_num_partitions = integer(50, HIGH, at_least(1))
    transaction_state_log_replication_factor = short(3, HIGH, at_least(1))
    transaction_state_log_segment_bytes = integer(104_857_600, HIGH, at_least(1))
    transaction_two_phase_commit_enable = boolean(False, LOW, effect=TWO_PHASE_COMMIT)
    transactional_id_expiration_ms = integer(604_800_000, HIGH, at_least(1))
