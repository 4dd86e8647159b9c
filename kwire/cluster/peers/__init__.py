"""Requests to other brokers of the cluster: `Peers` gives a `Peer`, whose `call` sends a request.

A single-node broker never imports this package.
"""
