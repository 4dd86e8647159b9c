"""A small HTTP/1.1 server: the metrics, the control of tests, and the schema registry.

`messages` has requests, replies and errors.  `server` serves a function from requests to replies.
`process` has what a process needs that serves nothing else.  The server needs h11, which is
imported only here.
"""
