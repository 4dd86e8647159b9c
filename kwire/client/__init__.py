"""A small Kafka client on blocking sockets, for the command line, the console and tests.

It works with any Kafka broker, and uses the highest version of each request that both sides have.
It starts no thread and no event loop. Periodic work, such as a group member's heartbeat, happens
within the caller's own calls of `poll`.

The modules, the lowest first: `connection` (one broker), `cluster` (all brokers, by node id, leader
and coordinator), `topics`, `configs`, `groups`, `offsets` and `access` (administrative requests),
`producer`, `fetcher`, `membership` and `consumer` (records).
"""

from __future__ import annotations
