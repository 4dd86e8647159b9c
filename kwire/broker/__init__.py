"""One broker: the object that puts its services together, and what they all share.

The way in is `broker.Broker`, which handlers and the server see and nobody else.  `node.Node` is
its lower half: settings, metadata, partitions, clock and timers, on which every service is built.
`telemetry` collects the metrics that clients push (KIP-714).
May import cluster, coordinators, security, settings and storage; `timers` imports nothing.
"""
