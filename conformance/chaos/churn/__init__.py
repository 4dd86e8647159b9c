"""Churn tests: members of every group protocol join, leave, are killed and are paused for long.

The broker is killed meanwhile, too.  Each member is a process of its own and writes its part of the
history; `round` checks the whole history once the groups have read all records.
"""
