"""The generator of `codecs/messages/` and `codecs/api_keys.py` from `codecs/schema/`.

`python -m kwire.codecs.generator` writes them, `--check` only says which differ. `module.py` makes
a module of a schema file out of what `readers.py` and `writers.py` make of its structs;
`registry.py` makes what lists all messages; `source.py` and `types.py` hold what these share.
"""
