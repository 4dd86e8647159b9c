"""Tests authorization: sends every API key in every version as principals with different rights.

Each request is small and changes nothing even if it is allowed, so that every principal finds the
broker in the same state.  The comparison covers what a response says about access: errors with
their messages, authorized operations, and the names in the response.
`python -m kwire.conformance.access` sends the requests to Apache Kafka, and with `--rewrite` stores
its responses; tests/conformance/test_access.py compares kwire's responses with them.
"""
