"""Commands of Apache Kafka's and Confluent's images that compose files run, by kwire's client.

`python -m kwire.cli.image.tools NAME ARGUMENTS` runs the command NAME.  They have the options that
health checks and init containers use, and refuse the others.
"""
