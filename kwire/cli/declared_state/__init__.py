"""What a cluster is declared to have, and what that takes: machines without I/O.

`document` and `reading` make a `Declared` of a file's text (`state`), `plan` compares it with what
was found and lists the changes in the order in which they are made, `words` tells them to people,
and `writing` is the way back: a file's text of what was found.  kwire.cli.declaring asks a cluster
and changes it.
"""
