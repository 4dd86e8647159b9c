"""Who may ask what: every API key in every version, by senders of every right, at any broker.

Each request is small and changes nothing where it is allowed, so that all senders meet the same
broker; what is compared of an answer is what it says of access: errors with their sentences,
authorized operations, and the names that are told.  `python -m kwire.conformance.access` asks
Apache Kafka, and with `--rewrite` keeps its answers, to which tests/conformance/test_access.py
holds kwire.
"""
