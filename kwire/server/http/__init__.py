"""A small HTTP/1.1 server for the broker's own endpoints: the metrics, and the control of tests.

`messages` has requests, replies and errors.  `server` serves a function from requests to replies.
It needs h11, which is imported only here.
"""
