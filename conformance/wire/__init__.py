"""Sends the same requests to two brokers and compares their responses field by field.

`cases` has the scripts, one module per API key.  A `stage` runs a case on one broker and records
the responses.  `compare` finds the first difference between the responses in the form of
kwire.testing.comparing, `allowed` lists the known differences, and `report` shows the results.
"""
