"""Groups as pure state machines: their members, states and committed offsets.

Nothing here uses a socket, a file, a clock or randomness: time and ids are arguments.  One machine
holds the groups of one partition of `__consumer_offsets`.  Reading order:

    limits           the broker's settings that limit groups
    surroundings     what groups read from outside: topics and the settings of a group
    record_format, records    the records of `__consumer_offsets`, byte for byte Apache Kafka's
    timers           the timers of groups
    effects, decision    the effects of a decision, and a decision while it is made
    group, kind      the interface of all groups, and of a kind of groups
    java, java_queue    Java's hashing and queueing, where clients can see the order
    assignment       assignments as values
    metadata_hash    the hash of the topics that a group subscribes to
    offsets          committed offsets: commit, fetch, delete, expire
    pending_offsets, txn_offsets    offsets committed in transactions that are still open
    machine          start here: one partition's groups, operations on offsets, `apply`, timers
    classic/         the classic protocol (JoinGroup, SyncGroup ...)
    assigned/        what the three kinds below share: the coordinator assigns to their members
    consumer/        the consumer protocol (KIP-848): members get partitions
    share/           share groups (KIP-932): members share the records of partitions
    streams/         streams groups (KIP-1071): members get tasks

kwire.coordinators.contract defines the contract between a machine and its driver.
"""
