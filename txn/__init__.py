"""Transactions as pure machines, and the producer ids that they hand out.

Nothing here knows a socket, a file, a clock or chance: time and ids are arguments.  A machine is
one partition of `__transaction_state`; reading order is

    producer_ids    the ids that this broker may give out
    limits          what the broker's settings allow
    transaction     one transactional id: its states and the steps between them
    records         what `__transaction_state` holds, byte for byte Apache Kafka's
    timers          what a machine waits for
    effects         what a decision comes to; the markers that must be written
    init_producer_id, end_txn    the two decisions that have many cases
    listing         the filters of ListTransactions
    api_versions    what the version of a request says, and what its client can be told
    machine         the way in: one partition, its operations, `apply`, the timers

The contract between a machine and what drives it is kwire.coordinators.contract's.
"""
