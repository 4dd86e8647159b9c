"""Assigned groups: what consumer, share and streams groups have in common.

The coordinator of such a group assigns partitions or tasks to the members.  The group has an epoch,
which rises when its members, their subscriptions or the subscribed topics change.  The target
assignment is computed for an epoch and says what each member shall have.  A member shows with its
own epoch, in each heartbeat, which assignment it knows.  Reading order:

    records          the roles of a group's records
    member, group    the state that the records hold
    committing       which commits of offsets are allowed (consumer and streams groups)
    following        applies records to a group
    target           target assignments as values
    reconciliation   one member's steps to its target (consumer and streams groups)
    decision         a decision while it is made: the next epoch, the next target
    heartbeat        identifies the member that sends a heartbeat
    kind             start here: heartbeats, `apply`, timers

Each kind subclasses these classes, in modules of the same names.
"""
