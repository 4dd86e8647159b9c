"""Share groups (KIP-932): members share partitions, and each record is for one of them.

The coordinator says who reads which partitions; who has which records is decided by the leaders of
the partitions (kwire.coordinators.share).  Reading order is

    records                  what `__consumer_offsets` says of such a group
    assignor, target         who is to read which partitions
    member, initializing, group    what the records come to
    decision, heartbeat, describing   the requests
    kind                     the way in: requests, `apply`, timers
"""
