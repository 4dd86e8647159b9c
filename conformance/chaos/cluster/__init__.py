"""Chaos tests of a cluster: three brokers are killed, paused, cut off and starved under load.

The seed determines a round.  `plan` draws the faults, and `nemesis` injects them, several at a
time; `network` cuts brokers off, and `clock` changes their clocks.  At the end, `replicas` checks
that all replicas are in sync and equal, and the checks examine the clients' history.
"""
