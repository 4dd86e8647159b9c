"""The same requests to two brokers, their replies compared field by field.

`cases` are the scripts, a module for each API key; a `stage` plays one on one broker and writes
down what came back; `compare` finds the first difference in the form that kwire.testing.comparing
brings that into, `allowed` says which of them is known; `report` shows all of it.
"""
