"""Coordinators: whatever keeps its state in the records of a partition.

`contract` says what a coordinator's decision is and in which order it is carried out; the machines
for groups and transactions are `kwire.groups` and `kwire.txn`, those for share groups are in
`share`.  `runtime` runs the machines on the partitions that a broker leads, and
`share_partitions` deals out the records of share groups.  The way in is `runtime.coordinators`.
May import cluster, groups, log, settings, storage.partitions and txn.
"""
