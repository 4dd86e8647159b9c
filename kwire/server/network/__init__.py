"""Sockets: accepting, reading, answering, and what bounds them.

The way in is `listener.Listener`, which gives each accepted socket a `connection.Connection`.
"""
