"""Benchmarks of Spark's Kafka source and sink, by one Spark session that uses all brokers in turns.

`python -m kwire.conformance.bench.spark` measures rates, and
`python -m kwire.conformance.bench.spark.latency` how soon a query passes a record on.
"""
