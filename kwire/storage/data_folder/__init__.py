"""Data folders: their kinds, who may serve each kind, and changes of the number of brokers.

`kinds.look` says what a folder is, `admission` refuses whoever cannot serve it and names the
command that can, `growing` changes it.  Every way to serve a folder comes through here.
"""
