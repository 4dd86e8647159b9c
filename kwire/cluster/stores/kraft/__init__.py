"""The metadata of a cluster whose controllers are Apache Kafka's (KRaft).

The broker observes `__cluster_metadata`: it fetches the log of the controllers, and replays its
records into images.  It decides nothing here.

    records.py        what the records are: types, versions, batches
    states.py         what single records say of a partition, a broker or a quota
    user_records.py   credentials and tokens as records, and back
    draft.py          the changes that one batch of records makes to an image
    replaying.py      the image as of an offset
    checkpoint.py     an image as the records of a snapshot
    observing.py      which request goes to which controller next, and what its answer means
    metadata_log.py   the log and the snapshots on the disk, in Apache Kafka's format
    quorum_state.py   the file `quorum-state` beside them
    controllers.py    connections to controllers
    link.py           the driver: the task that runs the parts above

It registers with the controllers, and tells them that it lives:

    lifecycle.py           registration, heartbeats, controlled shutdown: what to send next
    living.py              the driver of the lifecycle; it has the broker's epoch
    assigning.py           tells the controllers in which directory each replica is
    producer_id_blocks.py  blocks of producer ids

It sends requests of its clients on to them:

    forwarding.py          a request in an Envelope, and the answer out of one

The first six and lifecycle.py are pure.  Only a broker that has controllers imports this package.
"""
