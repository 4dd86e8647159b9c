"""Schemas of Protobuf: the language of `.proto` files, and serialized descriptors.

`reading` makes the elements of `elements` from a text, `descriptors` makes them from a descriptor
and a descriptor from them, `printing` writes them as a text, `comparing` decides whether a reader
can read what a writer wrote, and `schema` has it all together.
"""
