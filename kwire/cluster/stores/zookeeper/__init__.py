"""The metadata store in ZooKeeper, with the znodes of Apache Kafka 3.9.

Start with `store.ZooKeeperStore`.  `znodes`, `acl_znodes` and `token_znodes` have the contents of
znodes, without I/O.  `link` runs kazoo, which has a thread of its own, on the trio loop.
"""
