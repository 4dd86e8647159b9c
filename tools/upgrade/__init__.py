"""Moves kwire to another release of Apache Kafka: `make upgrade KAFKA=4.5.0`.

`jars.py` reads the message schemas out of Kafka's jars, `notation.py` writes them in the notation
of `codecs/schema`, and `schema_files.py` keeps one file for each API key or record type.
"""
