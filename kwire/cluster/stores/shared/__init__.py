"""A metadata store that the brokers of one machine share: one process holds the metadata.

`server` runs in that process (the holder), on top of its local store; `store` is the ClusterStore
of a broker.  They exchange lines of JSON over a Unix socket (`lines`).  A broker is a member of the
cluster as long as its connection is open.
"""
