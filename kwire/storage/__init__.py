"""Storage of a broker: the partitions that it hosts, and its data folders.

`partitions` has the hosted partitions; the entry point is `partitions.hosted.HostedPartitions`.
`data_folder` finds out what kind of folder a path is, and whether this broker may serve it.
`takeover` serves folders that Apache Kafka wrote.  `disk_room` warns before a disk is full.  The
files of one partition are in `kwire.log`.

tests/test_layering.py states what its rooms may import.
"""
