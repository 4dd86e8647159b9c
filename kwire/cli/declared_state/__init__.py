"""Declarations of the state of a cluster, for `kwire apply` and `kwire export`.

`document` and `reading` parse the text of a file into a `Declared` (`state`).  `found` reads the
state of a cluster.  `plan` compares both and lists the changes in their order, `words` formats
them, and `carrying` carries them out.  `files` reads passwords and records from files.  `writing`
formats the state of a cluster as the text of a file.
"""
