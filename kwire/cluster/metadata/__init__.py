"""The metadata of a cluster as immutable values, without I/O.

`image.py` is the cluster at one moment.  `changes.py` has every change of it, and applies them.
`delta.py` is the difference between two images, for those that follow them.  `placement.py` and
`election.py` compute replicas and leaders.  kwire.cluster.stores keeps the metadata.
"""
