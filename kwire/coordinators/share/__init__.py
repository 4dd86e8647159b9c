"""Share groups' records as pure machines (KIP-932): which have been read, and who has which now.

Nothing here knows a socket, a file, a clock or chance: time is an argument.  Reading order is

    batches, records, state    what `__share_group_state` holds, byte for byte Apache Kafka's
    machine                    the share coordinator: one partition of that topic
    in_flight                  records of a partition that are on their way
    partition                  one partition as one group reads it: who has which records
    session                    which partitions a member reads, and in which order it says so
"""
