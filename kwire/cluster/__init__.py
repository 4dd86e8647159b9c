"""A cluster: its metadata, the decisions about it, its store, and replication between its brokers.

`metadata` is the cluster as an immutable image.  `decisions` and `controller` decide how it
changes, without a clock or a socket.  `stores` keep it (in a file, ZooKeeper, or a process of this
machine). `membership` lets a broker join the cluster, `peers` are connections to other brokers, and
`replication` leads and follows partitions with them.  The interface for the rest of the broker is
`membership.contract.ClusterMembership`.

tests/test_layering.py states what its rooms may import.
"""
