"""Groups of the consumer protocol (KIP-848): the coordinator assigns the partitions.

Reading order:

    records                  the records of such a group in `__consumer_offsets`
    assignors/, target       the target assignment
    member, group            the state that the records hold
    reconciliation           one member's steps from its partitions to its target
    patterns                 subscriptions by a regular expression
    following                applies records to a group
    decision, update         a decision while it is made; the effects of any member's request
    heartbeat, leaving, describing   the requests of the consumer protocol
    embedded, classic_join, classic_members   the requests of members of the classic protocol
    upgrade, downgrade, removal   conversion from and to a classic group; removal of members
    kind                     start here: requests, `apply`, timers
"""
