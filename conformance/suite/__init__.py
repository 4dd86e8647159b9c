"""What a suite of tests gets of its broker: how soon it is there, and how long two hundred take.

`python -m kwire.conformance.suite.fresh` measures the start of `kwire.testing.Kafka` and its reset.
"""
