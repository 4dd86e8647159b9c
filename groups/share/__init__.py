"""Share groups (KIP-932): several members read a partition, and each record goes to one of them.

The group coordinator assigns partitions to members.  The leaders of the partitions decide which
member gets which records (kwire.coordinators.share).  Reading order:

    records                  the records of such a group in `__consumer_offsets`
    assignor, target         the target assignment
    member, initializing, group    the state that the records hold
    decision, heartbeat, describing   the requests of members
    offsets                  the requests of administrators
    kind                     start here: requests, `apply`, timers
"""
