"""Groups of the consumer protocol (KIP-848): the coordinator deals out the partitions.

Reading order is

    records                  what `__consumer_offsets` says of such a group
    assignors/, target       who is to have which partitions
    member, group            what the records come to
    reconciliation           how a member gets from what it has to what it is to have
    patterns                 subscriptions by a regular expression
    following                how the group follows its records
    decision, update         a decision while it is made, and what any member's word leads to
    heartbeat, leaving, describing   the requests of the consumer protocol
    embedded, classic_join, classic_members   those of members that speak the classic one
    upgrade, downgrade, removal   how a classic group becomes one of these, and goes back or ends
    kind                     the way in: requests, `apply`, timers
"""
