"""The same requests to two brokers, their replies compared field by field.

`cases` are the scripts, a module for each API key; a `stage` plays one on one broker and writes
down what came back; `normal` brings that into a form in which only what `allowed` says may differ
is gone; `compare` finds the first difference; `report` shows all of it.
"""
