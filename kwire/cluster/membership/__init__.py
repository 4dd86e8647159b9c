"""A broker's membership in its cluster: it joins, may be the controller, and leaves.

The interface is `contract.ClusterMembership`.  `alone` implements it for a broker that is a cluster
by itself, `member` for a broker among others.
"""
