"""Moves kwire to another release of Apache Kafka: `make upgrade KAFKA=4.5.0`.

jars.py, facts.py, release.py     what the jars of a release say
notation.py, schema_files.py      its message schemas, as files of `codecs/schema`
tables.py                         its error codes, settings and features, as tables
drawing.py, vectors.py            messages as its encoder writes them
worklist.py, schema_changes.py    what is new in it, as items (item.py)
serving.py                        what kwire has of that
matrix.py                         where kwire answers unlike it
"""
