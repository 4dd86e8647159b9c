"""Clusters of three brokers side by side: `python -m kwire.conformance.bench.cluster`.

kwire and Apache Kafka 3.9.2, each on a ZooKeeper of its own with the same settings, one after the
other on the same machine; the clients are the same code.
"""
