"""The cluster's metadata in ZooKeeper, as Apache Kafka 3.9 keeps it there.

The way in is `store.ZooKeeperStore`.  What stands in a znode is `znodes`, without I/O; `session`
brings kazoo, which has threads of its own, to the trio loop.
"""
