"""Records as JSON-like data by their schema, and data as records.

Start with `record_schema.RecordSchema`, which is of any kind.  The console, the commands and the
jobs on Spark decode by it.
"""
