"""Schemas of Avro, as Avro's specification 1.12 and its Java library read them.

`reading` makes the types of `types` from JSON, `printing` writes them, `comparing` decides whether
a reader can read what a writer wrote, and `schema` has it all together.
"""
