"""The partitions that this broker hosts, and the work on them that several requests share.

The entry point is `partition.Partition`: a log, a leader epoch, a high watermark, and the requests
that wait for them.
"""
