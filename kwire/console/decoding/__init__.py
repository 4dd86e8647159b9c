"""The bytes of keys and values as something that people can read.

`decoded` tries what the bytes can be: text, JSON, Avro, Protobuf or JSON Schema with the schema
that a registry or a file has, and hex in the end.
"""
