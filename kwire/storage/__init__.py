"""What is on a broker's disks: partitions on their logs, and data folders as a whole.

`partitions` are what a broker hosts; the way in is `partitions.hosted.HostedPartitions`.
`data_folder` says what a folder is and who may serve it, `takeover` serves folders that Apache
Kafka wrote, `disk_room` warns before a disk is full.  The files of one partition are `kwire.log`.
May import cluster.metadata, cluster.stores, log and settings.
"""
