"""One broker: the object that creates its services, and the node that they share.

The entry point is `broker.Broker`; only handlers and the server use it.  `node.Node` is its lower
half: settings, metadata, partitions, clock and timers, on which every service is built.
`telemetry` collects the metrics that clients push (KIP-714).

tests/test_layering.py states what its rooms may import.
"""
