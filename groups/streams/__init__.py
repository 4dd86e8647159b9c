"""Streams groups (KIP-1071): the coordinator assigns the tasks of a streams application.

Members send the application's topology.  The coordinator creates its internal topics, and decides
which member processes which tasks, and which members keep copies of their state.  Modules with the
names of those in kwire.groups.assigned say what this kind adds.  Reading order:

    records                  the records of such a group in `__consumer_offsets`
    tasks, topology          tasks as values; the topology of an application
    configuring              the number of tasks, and the internal topics
    process, assignor, target    the target assignment
    member, group            the state that the records hold
    reconciliation           one member's steps from its tasks to its target
    decision                 a decision while it is made
    validation, heartbeat, endpoints, describing   the requests
    kind                     start here: leaving, and the delay of the first assignment
"""
