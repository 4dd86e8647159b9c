"""A small Kafka client on blocking sockets, for the command line, the console and tests.

It works against any Kafka broker: it speaks the highest version of each request that both sides
know.  It starts no thread and no event loop; what must happen from time to time (a group member's
heartbeat) happens inside the caller's own calls to `poll`.

The parts, bottom up: `connection` (one broker), `cluster` (all of them, by node id, leader and
coordinator), `topics`, `configs`, `groups`, `offsets`, `access` (questions and orders to the
cluster), `producer`, `fetcher`, `member`, `consumer` (records).
"""

from __future__ import annotations
