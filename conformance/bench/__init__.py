"""Kwire and Apache Kafka measured side by side: the way in is `make bench`."""
