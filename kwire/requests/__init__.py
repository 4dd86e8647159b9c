"""Answering requests: from a decoded message to its reply.

`routes` is the one list of API keys; a request passes its guard (`guards`: may the sender do this?)
and comes to its handler (`handlers`, a module for each API key).  `shortcuts` answers requests that
a connection repeats byte for byte.  The way in is `routes.bind`.
May import everything but server, testing, pipeline, client and cli.
"""
