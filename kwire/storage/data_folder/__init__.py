"""What a folder of data is, who may serve it, and how one broker's becomes a cluster's.

`kinds.look` says what a folder is, `admission` refuses whoever cannot serve it and names the
command that can, `growing` changes it.  Every way to serve a folder comes through here.
"""
