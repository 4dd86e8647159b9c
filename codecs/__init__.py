"""Kafka's wire format: bytes to objects and back, without I/O.

- `schema/`: every message in every version, in the notation of `schema_notation.py`; `generator/`
  makes `messages/` (a module for each API key and record type) and `api_keys.py` of it.
- `primitives.py`: what messages share: `DecodeError`, `EncodeError`, `Frame`, the `Message` base.
- `errors.py`: the error codes.
- `json_form.py`: messages as JSON, in the form of Apache Kafka's own converters; `python -m
  kwire.codecs FILE` compares JSON and bytes line by line.
- `batches.py`: record batches, whole (its parts: `batch_header.py`, `batch_reader.py`,
  `batch_builder.py`, `record.py`, `control.py` for markers, `legacy.py` for magic 0 and 1,
  `varint.py`); `compression.py`: the compression of their records (`snappy_stream.py`,
  `zstd_stream.py`).

A tagged struct field of a message that cannot be null is None at its default (it is not sent then);
a coordinator record's `API_KEY` is its record type, the int16 in front of the key on disk.
"""
