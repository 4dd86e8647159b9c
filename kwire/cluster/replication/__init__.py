"""Replication: the leader and the follower side of partitions with several replicas.

Start with `manager.ReplicaManager`, which leads and follows.  `controller_requests` handles the
requests of a controller that say what this broker leads and follows; `roles` reads it off the
metadata of KRaft controllers, and `kraft` has what is different beside them.  `leading`,
`following`, `fetch_session` and `metadata_update` decide without I/O; `fetcher` and `isr` send
requests to other brokers.  A single-node broker never imports this package.
"""
