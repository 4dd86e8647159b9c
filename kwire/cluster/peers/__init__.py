"""Other brokers of the cluster, as this one reaches them: `Peers` gives a `Peer`, `Peer` answers.

Imported where there are other brokers; a broker alone never does.
"""
