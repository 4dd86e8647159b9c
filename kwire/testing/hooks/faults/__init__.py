"""Faults: rules that inject errors, delays and lost connections into requests, for tests.

`rules` parses a rule, `machine` decides for each request which rule applies and records the
injections, `parts` knows which topics and partitions a request names, and `refusing` answers some
partitions of a request with an error while the broker serves the others.  `disk` has the rules
about disk operations.  Nothing in here reads a clock, a socket or a random number: they are
arguments.  The caller is kwire.server.network.controlled.
"""

from __future__ import annotations
