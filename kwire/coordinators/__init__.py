"""Coordinators: components that keep their state in the records of an internal topic's partition.

`contract` defines a coordinator's decision and the order in which it is carried out.  The machines
for groups and transactions are in `kwire.groups` and `kwire.txn`; those for share groups are in
`share`.  `runtime` runs the machines on the partitions that this broker leads.  `share_partitions`
hands out the records that share groups read.  Start reading at `runtime.coordinators`.

tests/test_layering.py states what its rooms may import.
"""
