"""The registry's state, and decisions about it, without I/O.

`state` is what the records of the registry's topic amount to.  The modules whose names are verbs
decide about one change each: they return the records to write, or raise a RegistryError.
"""
