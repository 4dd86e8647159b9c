"""What a partition is on this broker, and the work on it that several requests share.

The way in is `partition.Partition`: its log, its epoch, its high watermark and who waits.
"""
