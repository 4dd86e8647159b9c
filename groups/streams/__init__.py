"""Streams groups (KIP-1071): the coordinator deals out the tasks of a streams application.

It is told the application's topology, has its internal topics made, and says which member processes
which tasks, and which follow their state.  Reading order is

    records                  what `__consumer_offsets` says of such a group
    tasks, topology          what is dealt out
    configuring              how many tasks there are, and which internal topics
    process, assignor, target    who is to have which tasks
    member, group            what the records come to
    reconciliation           how a member gets from what it has to what it is to have
    following                how the group follows its records
    validation, decision, heartbeat, endpoints, describing   the requests
    kind                     the way in: requests, `apply`, timers
"""
