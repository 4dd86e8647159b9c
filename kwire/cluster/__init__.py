"""What a cluster is, who decides about it, where that is kept, and how its brokers work together.

`metadata` is the cluster as an immutable image; `decisions` and `controller` say how it changes,
without a clock or a socket.  `stores` keep it (a file, ZooKeeper, a process of this machine),
`membership` is a broker's part in it, `peers` are connections to other brokers, and `replication`
leads and follows partitions with them.  The way in is `membership.contract.Membership`.
May import codecs, log, settings, security and storage.partitions.
"""
