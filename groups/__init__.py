"""Groups as pure machines: who is in them, which state they are in, what they have committed.

Nothing here knows a socket, a file, a clock or chance: time and ids are arguments.  A machine is
one partition of `__consumer_offsets`; reading order is

    limits        what the broker's settings allow
    records       what `__consumer_offsets` holds, byte for byte Apache Kafka's
    timers        what a group waits for
    effects       what a decision comes to, before any of it has happened
    java          hashing as Java does it, where clients can see it
    classic_state, classic_group, classic_*     the classic protocol (JoinGroup, SyncGroup ...)
    offsets       committed offsets: commit, fetch, delete, expire
    shard         one partition's groups: the operations, `apply`, the timers
    simulation    a shard without a broker, for tests

The contract between a machine and the runtime that drives it is in `effects`.
"""
