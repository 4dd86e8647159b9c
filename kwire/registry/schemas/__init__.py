"""Schemas of the three kinds: parsed, compared, and applied to the bytes of records.

`parsing.parse` is the way in: it gives a schema of `kinds.ParsedSchema`, whose classes are in the
folders `avro`, `protobuf` and `json_schema`.  `levels` compares a new version with earlier ones.
Texts come from anybody: each limit is a constant with its reason, and a schema that is too complex
to be compared is not compatible.
"""
