"""What a suite of tests gets of its broker: how soon it is there, and how long two hundred take.

`python -m kwire.conformance.suite` runs tests/suite on both brokers, or on kwire by workers side by
side; `python -m kwire.conformance.suite.fresh` measures how soon `kwire.testing.Kafka` is there.
"""
