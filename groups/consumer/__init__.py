"""Groups of the consumer protocol (KIP-848): the coordinator assigns the partitions.

Modules with the names of those in kwire.groups.assigned say what this kind adds.  Reading order:

    records                  the records of such a group in `__consumer_offsets`
    assignors/, target       the target assignment
    member, group            the state that the records hold
    reconciliation           one member's steps from its partitions to its target
    patterns                 subscriptions by a regular expression
    decision                 a decision while it is made, for members of both protocols
    validation, heartbeat, describing   the requests of the consumer protocol
    embedded, classic_join, classic_members   the requests of members of the classic protocol
    upgrade, downgrade, removal   conversion from and to a classic group; removal of members
    kind                     start here: leaving, timers, requests of the classic protocol
"""
