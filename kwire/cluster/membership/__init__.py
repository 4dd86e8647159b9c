"""A broker's part in its cluster: joining, being the controller, and leaving.

The way in is `contract.Membership`.  `alone` is the membership of a broker that is a cluster by
itself, `member` that of one among others.
"""
