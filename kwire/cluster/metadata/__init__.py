"""What the cluster is, as values: image, changes to it, what a change changed; no I/O.

`image.py` is the cluster at one moment; `changes.py` all that can happen to it, `apply` included;
`delta.py` what became of it, for those who follow it.  `placement.py` and `election.py` decide.
The stores that keep all this are in `kwire.cluster`.
"""
