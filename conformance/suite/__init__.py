"""Measures how fast a test suite runs on a broker, and how soon a fresh broker serves.

`python -m kwire.conformance.suite` runs tests/suite on both brokers, or on kwire by parallel
workers.  `python -m kwire.conformance.suite.fresh` measures the start and reset of
`kwire.testing.Kafka`.
"""
