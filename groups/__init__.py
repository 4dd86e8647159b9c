"""Groups as pure machines: who is in them, which state they are in, what they have committed.

Nothing here knows a socket, a file, a clock or chance: time and ids are arguments.  A machine is
one partition of `__consumer_offsets`; reading order is

    limits        what the broker's settings allow
    surroundings  what groups look at outside: topics, settings of a group
    record_format, records    what `__consumer_offsets` holds, byte for byte Apache Kafka's
    timers        what groups wait for
    effects, decision    what a decision comes to, before any of it has happened
    group, kind   what all groups have in common, and what each kind brings
    metadata_hash, assigning    what those have in common whose coordinator assigns
    member_epochs    who may commit where members have epochs
    java, java_queue    hashing and queueing as Java does it, where clients can see it
    offsets       committed offsets: commit, fetch, delete, expire
    pending_offsets, txn_offsets    those of transactions: committed, and not yet ended
    machine       the way in: one partition's groups, the operations on offsets, `apply`, the timers
    classic/      the classic protocol (JoinGroup, SyncGroup ...), with its own operations
    consumer/     the consumer protocol (KIP-848): the coordinator deals out the partitions
    share/        share groups (KIP-932): members share the records of partitions
    streams/      streams groups (KIP-1071): the coordinator deals out tasks

The contract between a machine and what drives it is kwire.coordinators.contract's.
"""
