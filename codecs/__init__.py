"""Kafka's wire format: bytes to objects and back, without I/O.

- `schema/`: every message in every version, in the notation of `schema_notation.py`.  `generator/`
  writes `messages/` (a module for each API key and record type) and `api_keys.py` from it.
- `primitives.py`: what messages share: `DecodeError`, `EncodeError`, `Frame`, the base `Message`.
- `errors.py`: the error codes.
- `json_form.py`: messages as JSON, in the form of Apache Kafka's converters.  `python -m
  kwire.codecs FILE` compares JSON and bytes line by line.
- `batches.py`: record batches.  Its parts are `batch_header.py`, `batch_reader.py`,
  `batch_builder.py`, `record.py`, `control.py` (markers), `legacy.py` (magic 0 and 1) and
  `varint.py`.  `compression.py` compresses their records (`snappy_stream.py`, `zstd_stream.py`).

A tagged struct field that cannot be null is None at its default, and is then not sent.  The
`API_KEY` of a coordinator record is its record type, the int16 in front of the key on disk.
"""
