"""The coordinators of this broker: machines on the partitions of their internal topics.

The ways in are `groups.GroupCoordinator` and `transactions.TransactionCoordinator`.
"""
