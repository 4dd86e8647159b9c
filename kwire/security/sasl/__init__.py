"""SASL's mechanisms as machines: tokens in, tokens out; clocks and chance are arguments.

The way in is `exchange`, what a mechanism is; `plain`, ... are those that are served.  Both sides
are here: brokers and kwire's client log in to others by the same machines.  `jaas` reads the lines
in which Kafka's files have passwords.
"""
