"""Benchmarks of clusters of three brokers: `python -m kwire.conformance.bench.cluster`.

kwire and Apache Kafka run one after the other on the same machine, with the same settings and the
same clients: on a ZooKeeper (Apache Kafka 3.9.2), or with `--kraft` beside a KRaft controller of
Apache Kafka 4.4.0.  Each cluster has one of its own.  With `--alone`, kwire's is a `kwire serve
--brokers 3`, which needs neither.
"""
