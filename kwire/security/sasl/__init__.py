"""SASL mechanisms without I/O: tokens in, tokens out; clocks and nonces are arguments.

Start with `exchange`, the interface of a mechanism.  `plain`, `scram` and `oauthbearer` implement
its server and client sides; brokers and kwire's client use the client sides to log in to others.
`jaas` parses the lines in which Kafka's files have passwords.
"""
