"""Benchmarks of kwire and Apache Kafka side by side; the main entry is `make bench`."""
