"""A partition on several brokers: leading with followers, and following.

`manager.ReplicaManager` is the way in: what the controller asks of a broker.  `progress` and
`following` decide, without I/O; `fetcher` and `isr` talk to other brokers.  Imported where there
are other brokers; a broker alone never does.
"""
