"""Share groups (KIP-932) as pure machines: delivery state, acquired records, sessions.

Nothing here uses a socket, a file, a clock or randomness: time is an argument.  Reading order:

    batches, records, state    the contents of `__share_group_state`, byte for byte Apache Kafka's
    machine                    the share coordinator: one partition of that topic
    questions                  the five requests to a share coordinator, as values
    dead_letters               records that a group gives up, in its dead-letter topic (KIP-1191)
    in_flight                  records between the start offset and the end of what was acquired
    partition                  a share partition: which member has acquired which records
    session                    share sessions: which partitions a member reads
"""
