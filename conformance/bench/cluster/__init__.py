"""Benchmarks of clusters of three brokers: `python -m kwire.conformance.bench.cluster`.

kwire and Apache Kafka 3.9.2 run one after the other on the same machine, each with a ZooKeeper of
its own, with the same settings and the same clients.
"""
