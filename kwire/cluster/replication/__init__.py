"""Replication: the leader and the follower side of partitions with several replicas.

Start with `manager.ReplicaManager`, which handles the controller's requests.  `leading`,
`following`, `fetch_session` and `metadata_update` decide without I/O; `fetcher` and `isr` send
requests to other brokers.  A single-node broker never imports this package.
"""
