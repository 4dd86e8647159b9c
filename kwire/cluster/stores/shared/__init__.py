"""A cluster on one machine: one process holds the metadata, and its brokers share it.

`server` is that process' side, over its local store; `store` is a broker's, a ClusterStore.  They
talk over a Unix socket, in lines of JSON (`lines`); a broker is a member for as long as its
connection stands.
"""
