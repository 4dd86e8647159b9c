"""Transactions as pure state machines, and the producer ids that they assign.

Nothing here uses a socket, a file, a clock or randomness: time and ids are arguments.  One machine
holds the transactional ids of one partition of `__transaction_state`.  Reading order:

    producer_ids    the stock of producer ids of this broker
    limits          the broker's settings that limit transactions
    transaction     one transactional id: its states and the transitions between them
    records         the records of `__transaction_state`, byte for byte Apache Kafka's
    timers          the timers of a machine
    effects         the effects of a decision; the markers to write
    init_producer_id, end_txn    the two decisions with many cases
    listing         the filters of ListTransactions
    api_versions    transaction version and error codes by the version of a request
    machine         start here: one partition's operations, `apply`, timers

kwire.coordinators.contract defines the contract between a machine and its driver.
"""
