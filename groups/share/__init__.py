"""Share groups (KIP-932): several members read a partition, and each record goes to one of them.

The group coordinator assigns partitions to members.  The leaders of the partitions decide which
member gets which records (kwire.coordinators.share).  Modules with the names of those in
kwire.groups.assigned say what this kind adds.  Reading order:

    records                  the records of such a group in `__consumer_offsets`
    assignor, target         the target assignment
    member, initializing, group    the state that the records hold
    decision                 a decision while it is made
    validation, heartbeat, describing   the requests of members
    offsets                  the requests of administrators
    kind                     start here: leaving, the state that the share coordinator stores
"""
