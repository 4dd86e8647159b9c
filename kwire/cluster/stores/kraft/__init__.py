"""The metadata of a cluster whose controllers are Apache Kafka's (KRaft).

The broker observes `__cluster_metadata`: it fetches the log of the controllers, and replays its
records into images.  It decides nothing here.

    records.py        what the records are: types, versions, batches
    draft.py          the changes that one batch of records makes to an image
    replaying.py      the image as of an offset
    checkpoint.py     an image as the records of a snapshot
    observing.py      which request goes to which controller next, and what its answer means
    metadata_log.py   the log, snapshots and `quorum-state` on the disk, in Apache Kafka's format
    link.py           the driver: connections, and the tasks that run the parts above

All but the last two are pure.  Only a broker that has controllers imports this package.
"""
