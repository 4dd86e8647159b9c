"""The coordinators of this broker: machines on the partitions of their internal topics.

`coordinators.Coordinators` creates them: `groups.GroupCoordinator`,
`transactions.TransactionCoordinator` and `share.ShareCoordinator`.  All three drive their machines
with `runtime.CoordinatorRuntime`.
"""
